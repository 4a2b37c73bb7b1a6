"""A Gymnasium environment of a learned model, for one robot or many side by side."""

from diffnea.environment.making import make_env
