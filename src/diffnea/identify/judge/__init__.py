"""The verdict: windows kept back, scores, and whether a fit may be used."""
