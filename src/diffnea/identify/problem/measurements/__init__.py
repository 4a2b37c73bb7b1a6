"""Measurements: recordings as tracks, and the rows of them that least squares sees."""
