"""The search for θ: Levenberg-Marquardt, ADAM, regression, and where they start."""
