"""Mistakes in robot files and logs: each is tried, and what explains the data is hinted at."""
