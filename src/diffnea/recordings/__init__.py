"""Recordings: read from logs, checked, resampled, differentiated and diagnosed."""

from diffnea.recordings import public
from diffnea.recordings.base_motion import BaseMotion
from diffnea.recordings.diagnosis.diagnose import Diagnosis, Excitation, Sampling, Saturation, diagnose
from diffnea.recordings.diagnosis.joint_limits import LimitContact, at_limits, limit_contacts
from diffnea.recordings.loading import load_recording, load_recordings, save_recording
from diffnea.recordings.measured_input import as_held
from diffnea.recordings.recording import Recording, RecordingError, Samples, as_list, concatenate, samples_of
from diffnea.recordings.signal.differentiate import JointSmoothing, Smoothed, differentiate, prepare, smooth
from diffnea.recordings.signal.input_delay import Delay, input_delays
from diffnea.recordings.signal.matched_input import matched_input
from diffnea.recordings.signal.resampling import is_regular, regular
from diffnea.recordings.signal.velocity_filter import VelocityLag, velocity_lag
