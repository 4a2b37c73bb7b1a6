"""Dry friction before it slips: Prandtl's element and its lengths."""
