"""The verdict: divergence counts where the start has none, and where it has some, beyond chance."""

from dataclasses import replace

import pytest

import diffnea as dn
from diffnea.identify.judge.score import Score
from diffnea.identify.judge.verdict import Metrics, another_robot, judge


def score(error, diverged):
    return Score(0.1, (0.1,), (0.5,), (error,), ((error,),), 1.0, diverged, 128)


@pytest.mark.parametrize(
    ("lost", "before", "word"),
    [
        (0, 0, "accepted"),
        (1, 0, "no better than the start"),
        (14, 11, "accepted"),
        (9, 11, "accepted"),
        (18, 11, "no better than the start"),
    ],
)
def test_roll_outs_that_diverge(lost, before, word):
    verdict = judge(Metrics(score(0.1, lost), score(0.2, before), score(1.0, 0), score(1.0, 0)), [], [], ["joint"])
    assert verdict == word
    assert any("roll-outs diverge" in reason for reason in verdict.reasons) == (lost > before)


@pytest.mark.parametrize(("factor", "strange"), [(1.0, False), (20.0, False), (0.01, True), (176.0, True)])
def test_a_robot_of_another_weight_is_another_robot(factor, strange):
    robot = dn.systems.furuta().robot
    other = replace(robot, inertia=replace(robot.inertia, mass=factor * robot.inertia.mass))
    said = another_robot(dn.Model(robot), dn.Model(other))
    assert bool(said) == strange
    good = Metrics(score(0.1, 0), score(0.2, 0), score(1.0, 0), score(1.0, 0))
    verdict = judge(good, [], [], ["joint"], said)
    assert verdict == ("failed" if strange else "accepted") and len(verdict.reasons) == 3 + strange
    assert not strange or f"weigh {factor:g} times" in verdict.reasons[0]
