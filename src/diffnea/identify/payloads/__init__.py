"""Fits of payloads: what a robot carries beyond its model, as a body of ten numbers."""
