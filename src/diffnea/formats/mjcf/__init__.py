"""MJCF: through MuJoCo's own compiler in, and back into the user's text."""

from diffnea.formats.mjcf.editor import edit
from diffnea.formats.mjcf.reader import read
from diffnea.formats.mjcf.scene import Written
from diffnea.formats.mjcf.writer import render
