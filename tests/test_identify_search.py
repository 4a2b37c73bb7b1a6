"""Which of several starts is carried on."""

import numpy as np

from diffnea.identify.least_squares import Descent
from diffnea.identify.search import _ranked, _settled


def test_validation_chooses_between_starts_that_fit_about_as_well():
    assert _ranked(np.array([1.0, 1.1, 1.5]), np.array([3.0, 1.0, 2.0])).tolist() == [1, 2, 0]


def test_a_start_that_explains_nothing_is_not_chosen_however_calm_the_validation_data():
    # Measured on the real cart-pole: the minimum without a pole has five times the loss, and looks better at rest.
    assert _ranked(np.array([0.16, 0.77, 0.54]), np.array([0.3, 0.1, 0.2]))[0] == 0


def test_what_is_not_finite_comes_last_and_exact_fits_are_equals():
    loss, validation = np.array([np.inf, 1e-30, 1e-27, 2e-3]), np.array([0.0, 2.0, 1.0, np.nan])
    assert _ranked(loss, validation).tolist()[:2] == [2, 1]


def test_starts_that_were_stopped_on_the_way_do_not_agree():
    def run(loss, converged):
        return Descent(np.zeros((len(loss), 1)), np.array(loss), np.array(converged), ())

    assert _settled(run([0.16, 0.161, 0.7], [True, False, True]))
    assert not _settled(run([0.685, 0.687, 0.7], [False, False, False]))
    assert not _settled(run([0.16, 0.2, np.inf], [True, True, False]))
