"""Regression: torques as linear sums of columns, and which parts a model needs by them."""
