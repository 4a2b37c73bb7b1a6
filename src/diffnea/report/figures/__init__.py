"""Figures: charts, the heat map and the 3-D playback, and which of them a page shows."""
