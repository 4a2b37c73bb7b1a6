"""Robots, logs and truths from outside: drawn by seed, simulated by Pinocchio with joints that really stick."""
