"""Excitation: what data determine before they are fitted, and motions that determine more."""

from diffnea.excitation.forecast import forecast
