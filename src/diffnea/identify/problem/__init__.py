"""The problem of a fit: data as rows, unknowns as one vector, residuals and their slopes."""
