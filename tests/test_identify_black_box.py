"""Black box: noise is not explained, however large; structure that a model lacks is, however small."""

import numpy as np
import pytest

from diffnea.identify.judge.black_box import structure
from diffnea.identify.judge.torque_rows import TorqueRows
from diffnea.identify.options import JudgeOptions

OPTIONS = JudgeOptions()
REVOLUTE = np.array([True, False])


def rows(left, seconds=40.0, rate=20.0, seed=0, timed=True):
    """Two joints along sums of sines; what is left of their torques is a function of the motion, and noise."""
    rng, count = np.random.default_rng(seed), round(seconds * rate)
    time = np.arange(count) / rate
    pace, a = 2 * np.pi * 0.17 * np.arange(1, 6), rng.normal(size=(2, 5, 2)) / np.arange(1, 6)[:, None]
    s, c = np.sin(time[:, None] * pace), np.cos(time[:, None] * pace)
    q, qd = s @ a[0] + c @ a[1], c @ (pace[:, None] * a[0]) - s @ (pace[:, None] * a[1])
    qdd = -s @ (pace[:, None] ** 2 * a[0]) - c @ (pace[:, None] ** 2 * a[1])
    u = qdd + np.sin(q)
    shares = (left(q, qd, qdd, time), u, q, qd, qdd, u, np.sign(qd))
    return TorqueRows(*shares, np.zeros(count, int), time if timed else np.arange(count) * 1.0, timed, u.std(0))


def found(left, **more):
    return structure(rows(left, **more), rows(left, seconds=20.0, seed=0, **more), REVOLUTE, OPTIONS)


@pytest.mark.parametrize("size", [0.01, 1.0])
def test_noise_is_no_structure(size):
    rng = np.random.default_rng(1)
    shown = found(lambda q, *_: size * rng.standard_normal(q.shape))
    assert shown is not None and max(each.lower for each in shown.removed) < 0.1 * size


def test_a_spring_that_the_model_lacks_is_structure():
    rng = np.random.default_rng(1)
    shown = found(lambda q, *_: 3.0 * np.tanh(q) * [1, 0] + 0.1 * rng.standard_normal(q.shape))
    assert shown is not None
    assert shown.removed[0].lower > OPTIONS.structure and shown.ratio[0].lower > np.log(2)
    assert shown.removed[1].lower < OPTIONS.mostly_structure


def test_a_late_input_is_structure():
    """Neighbouring rows show it: no function of the state does."""

    def late(q, qd, qdd, time):
        u = qdd + np.sin(q)
        return np.roll(u, 1, axis=0) - u

    shown = found(late)
    assert shown is not None and min(each.lower for each in shown.removed) > OPTIONS.structure


def test_samples_without_order_have_no_neighbours():
    shown = found(lambda q, *_: 3.0 * np.tanh(q), timed=False)
    assert shown is not None and shown.removed[0].lower > OPTIONS.structure


def test_too_few_rows_say_nothing():
    assert found(lambda q, *_: q, rate=0.5) is None
