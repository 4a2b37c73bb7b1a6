"""Zeros of single recordings: the one that was set anew is found, and the others stay as they are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffnea import systems
from diffnea.identify.options import TrajectoryOptions
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.identify.problem.unknowns import unknowns
from diffnea.identify.trajectory.recording_zeros import Zeros, moved, own_zeros
from diffnea.simulate import rollout

DT, STEPS, SHIFT = 0.01, 50, np.array([0.0, 0.08])
# Of a zero, in rad: what the pull to none leaves of a shift.
NEAR = 0.01
FREE = unknowns(systems.cartpole().robot, ("inertia",), "viscous", jax.random.key(0))


@pytest.fixture(scope="module")
def swings():
    """Four swings of a pole; in the third it was read with another zero."""
    model, time = FREE.model(jnp.asarray(FREE.start)), DT * np.arange(600)
    found = []
    for k in range(4):
        u = np.stack([3 * np.sin((2 + k) * time), np.zeros_like(time)], 1)
        run = rollout(model, jnp.asarray([0.0, 0.5 + 0.1 * k]), jnp.zeros(2), u, DT)
        q = np.asarray(run.q) - (k == 2) * SHIFT
        found.append(Track(f"swing {k}", DT, q, np.asarray(run.qd), np.zeros_like(q), u, q))
    return found


def _zeros(tracks):
    spread = np.concatenate([track.q for track in tracks]).std(0)
    return own_zeros(FREE, FREE.start, tracks, spread, STEPS, 1, TrajectoryOptions())


def test_the_recording_with_another_zero_is_found_and_moved_back(swings):
    zeros = _zeros(swings)
    assert list(zeros.shifts) == ["swing 2"]
    np.testing.assert_allclose(zeros.shifts["swing 2"][1], SHIFT[1], atol=NEAR)
    back = moved(swings, zeros)
    assert [each is track for each, track in zip(back, swings, strict=True)] == [True, True, False, True]
    np.testing.assert_array_equal(back[2].q - swings[2].q, back[2].measured - swings[2].measured)
    np.testing.assert_allclose((back[2].q - swings[2].q)[:, 1], SHIFT[1], atol=NEAR)
    notes = zeros.notes(("cart", "pole"))
    assert [(each.code, each.subject, each.values["joint"]) for each in notes] == [
        ("zero-moved", "swing 2", "cart"),
        ("zero-moved", "swing 2", "pole"),
    ]
    np.testing.assert_allclose(notes[1].values["by"], SHIFT[1], atol=NEAR)


def test_a_zero_that_all_share_is_the_models_and_two_recordings_do_not_vote(swings):
    alike = [track for k, track in enumerate(swings) if k != 2]
    assert _zeros(alike).shifts == {}
    assert _zeros(moved(alike, Zeros({track.name: SHIFT for track in alike}))).shifts == {}
    assert _zeros(swings[1:3]).shifts == {}


def test_recordings_too_short_for_a_window_say_nothing(swings):
    assert _zeros([track.take(slice(0, 20)) for track in swings]).shifts == {}
