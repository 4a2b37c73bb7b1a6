"""Flying bodies with rotors: what their commands do, and where they will be half a second on."""

from diffnea.flight.model import Ahead, Flyer
from diffnea.flight.rotor import Rotor
from diffnea.flight.state import Flight
