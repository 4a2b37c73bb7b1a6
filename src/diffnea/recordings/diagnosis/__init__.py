"""Diagnosis: what recordings are worth, and what is wrong with them, before anything is fitted."""
