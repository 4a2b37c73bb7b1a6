"""Identification: recordings → a model, what the data determine of it, and a verdict on data that were not fitted."""

from diffnea.identify.fit import fit as fit
from diffnea.identify.floating.contacts import Foot as Foot
from diffnea.identify.io.store import FitFileError as FitFileError
from diffnea.identify.io.store import load_fit as load_fit
from diffnea.identify.notes import Note as Note
from diffnea.identify.options import Options as Options
from diffnea.identify.payload import Payload as Payload
from diffnea.identify.result import Fit as Fit
