"""Uncertainty: covariance from correlated residuals, profiles of friction, noise in regressors."""
