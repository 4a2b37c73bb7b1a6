"""Recordings: read from logs, checked, resampled, differentiated and diagnosed."""

from diffnea.recordings import public
from diffnea.recordings.base_motion import BaseMotion
from diffnea.recordings.diagnose import Diagnosis, Excitation, Sampling, Saturation, diagnose
from diffnea.recordings.differentiate import JointSmoothing, Smoothed, differentiate, prepare, smooth
from diffnea.recordings.input_delay import Delay, input_delays
from diffnea.recordings.joint_limits import LimitContact, at_limits, limit_contacts
from diffnea.recordings.loading import load_recording, load_recordings, save_recording
from diffnea.recordings.matched_input import matched_input
from diffnea.recordings.measured_input import as_held
from diffnea.recordings.recording import Recording, RecordingError, Samples, as_list, concatenate, samples_of
from diffnea.recordings.resampling import is_regular, regular
from diffnea.recordings.velocity_filter import VelocityLag, velocity_lag
