"""Identification: from recordings to a model that says what it knows."""

from diffnea.identify.files import FitFileError, load_fit
from diffnea.identify.fit import Fit, fit
