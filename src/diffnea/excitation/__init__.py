"""Excitation: what data determine before they are fitted, and motions that determine more."""

from diffnea.excitation.choosing import chosen
from diffnea.excitation.design import Design, design
from diffnea.excitation.expectation import Expectation, expectation
from diffnea.excitation.forecast import forecast, foretold
