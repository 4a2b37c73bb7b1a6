"""Machines to learn from, with known truth: `systems.cartpole()` and `systems.furuta()`."""

from diffnea.systems.swing_up import SwingUp, varied
from diffnea.systems.system import Sensors, System, cartpole, furuta
