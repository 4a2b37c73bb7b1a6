"""Fits on disk: folders, models as plain data, robot files."""
