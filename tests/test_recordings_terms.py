"""Terms of equations from noisy positions: the equation of motion holds for them, not so for smoothed states."""

import jax.numpy as jnp
import numpy as np
import pytest

from diffnea.identify.problem.measurements.rows import Batch, filtered, taps_of, through
from diffnea.recordings import Recording, smooth
from diffnea.recordings.signal.terms import terms

DT, MASS, DAMPING = 0.004, 0.7, 2.0


@pytest.fixture(scope="module")
def slider() -> Recording:
    """A mass with a damper under a held random force, its exact motion read with noise."""
    rng = np.random.default_rng(0)
    force = np.repeat(rng.normal(size=400), 10)
    q, qd = np.zeros(len(force)), np.zeros(len(force))
    decay = np.exp(-DAMPING / MASS * DT)
    for k in range(len(force) - 1):
        end = force[k] / DAMPING
        qd[k + 1] = end + (qd[k] - end) * decay
        q[k + 1] = q[k] + end * DT + (qd[k] - end) * (1 - decay) * MASS / DAMPING
    read = q + 2e-6 * rng.normal(size=len(q))
    return Recording(time=DT * np.arange(len(q)), q=read[:, None], u=force[:, None])


def left_over(q, qd, qdd, u, corner: float) -> float:
    """What an equation of motion leaves after the low-pass, as a share of the force."""
    taps = taps_of(corner)
    count = len(q) // taps.shape[1] * taps.shape[1]
    low_pass = filtered(Batch(q, qd, qdd, u, np.ones_like(q)).take(slice(count)), [count], DT, taps).low_pass
    both = MASS * qdd + DAMPING * qd - u, u
    wrong, force = (np.asarray(through(low_pass, jnp.asarray(each[:count]))) for each in both)
    return float(wrong.std() / force.std())


def test_the_equation_holds_for_terms_and_not_for_smoothed_states(slider):
    smoothed = smooth(slider)
    found = terms(slider, smoothed)
    corner = 2 * np.pi * DT * found.bandwidth
    assert len(found.q) == len(smoothed.q) and found.wide >= 2 * found.bandwidth
    exact = left_over(found.q, found.qd, found.qdd, found.u, corner)
    recording = smoothed.recording
    raw = left_over(smoothed.q, recording.qd, recording.qdd, recording.u, corner)
    assert exact < 0.03 and raw > 5 * exact  # the raw command is half a sample early


def test_a_joint_that_rests_does_not_narrow_the_others(slider):
    still = 1e-4 * np.random.default_rng(1).normal(size=len(slider))
    both = Recording(time=slider.time, q=np.column_stack([slider.q, still]), u=np.column_stack([slider.u, 0 * still]))
    alone, beside = (terms(each, smooth(each)).bandwidth for each in (slider, both))
    assert beside == pytest.approx(alone)


def test_a_part_of_the_terms(slider):
    found = terms(slider, smooth(slider))
    part = found.take(slice(10, 30))
    assert len(part.u) == 20 and np.array_equal(part.qdd, found.qdd[10:30]) and part.bandwidth == found.bandwidth


def test_a_recording_in_which_nothing_moves_has_terms_too():
    still = Recording(time=DT * np.arange(300), q=np.zeros((300, 2)), u=np.zeros((300, 2)))
    found = terms(still, smooth(still))
    assert found.bandwidth > 0 and not np.any(found.qdd)
