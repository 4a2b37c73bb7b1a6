"""Identification: from recordings to a model that says what it knows."""

from diffnea.identify.fit import Fit, fit
from diffnea.identify.io.store import FitFileError, load_fit
