"""What the data determine: coordinates, base parameters, covariance, sentences."""
