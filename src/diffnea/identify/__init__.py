"""Identification: from recordings to a model that says what it knows."""
