"""Columns: what a log names, in which unit, and the signals of joints and of a free base that they are."""
