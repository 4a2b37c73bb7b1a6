"""Signals over time: sampling clocks, smoothing, derivatives, delays."""
