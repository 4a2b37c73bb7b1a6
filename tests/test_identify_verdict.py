"""The verdict: surely better than the start, good by itself, and each window counted once."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import diffnea as dn
from diffnea.identify.judge.assess import Assessment, Metrics
from diffnea.identify.judge.black_box import Structure
from diffnea.identify.judge.bootstrap import Bound
from diffnea.identify.judge.errors import Errors, compared
from diffnea.identify.judge.score import NOTHING
from diffnea.identify.judge.verdict import Verdict, another_robot, judge
from diffnea.identify.notes import note
from diffnea.identify.options import JudgeOptions

OPTIONS = JudgeOptions()
METRICS = Metrics(NOTHING, NOTHING, None, None)
GOOD = Assessment("roll-outs", 127, True, Bound(-2.0, -2.2, -1.8), Bound(-3.0, -3.2, -2.8), (0, 0), (0.05,))


def said(found, **more):
    return judge(METRICS, found, ["joint"], **more)


def errors(fit, start, files=4):
    """Windows every quarter of a second, as of so many recordings one after the other."""
    count = len(fit)
    segment = np.arange(count) * files // count
    time = 0.25 * (np.arange(count) - np.searchsorted(segment, segment))
    return Errors(fit[:, None], start[:, None], np.ones((count, 1)), segment, time)


def drawn(count=127, seed=0):
    """Errors of a fit ten times better than its start, both by chance larger or smaller by a factor."""
    rng = np.random.default_rng(seed)
    return 0.01 * np.exp(0.8 * rng.standard_normal(count)), 0.1 * np.exp(0.8 * rng.standard_normal(count))


@pytest.mark.parametrize("lost", [0, 1, 2, 12])
def test_a_few_windows_that_diverge_do_not_overrule_all_others(lost):
    """The Qube: error 0.092 × the start's, 2 of 127 roll-outs diverge, none of the start's."""
    fit, start = drawn()
    fit[40 : 40 + lost] = np.inf
    ratios = compared(errors(fit, start), OPTIONS)
    found = replace(GOOD, against_start=ratios.start, against_guess=ratios.guess, lost=(lost, 0))
    assert said(found) == "accepted"
    assert ("diverged" in said(found).codes) == (lost > 0)


def test_a_fit_that_loses_most_windows_is_not_accepted():
    fit, start = drawn()
    fit[::2] = np.inf
    fit[1::4] = np.inf
    ratios = compared(errors(fit, start), OPTIONS)
    assert said(replace(GOOD, against_start=ratios.start, against_guess=ratios.guess)) != "accepted"


def test_the_order_of_recordings_does_not_matter():
    fit, start = drawn()
    fit[[3, 77]] = np.inf
    one = errors(fit, start)
    parts: list[Any] = list(one)
    turned = Errors(*(part[::-1] for part in parts))  # recordings and windows in reverse
    again = turned._replace(segment=3 - turned.segment, time=turned.time.max() - turned.time)
    moved = np.argsort((one.segment + 2) % 4, kind="stable")
    other = Errors(*(part[moved] for part in parts))._replace(segment=(one.segment[moved] + 2) % 4)
    bounds = [compared(each, OPTIONS).start or () for each in (one, other, again)]
    np.testing.assert_allclose(bounds[0], bounds[1], rtol=1e-12)
    np.testing.assert_allclose(bounds[2], bounds[0], rtol=0.1)  # blocks begin at the other end


def test_a_lost_window_has_a_bounded_influence():
    fit, start = drawn()
    whole = compared(errors(fit, start), OPTIONS).start
    fit[5] = 1e300
    found = compared(errors(fit, start), OPTIONS).start
    assert whole is not None and found is not None
    assert 0 < found.mean - whole.mean <= np.log(OPTIONS.cap / OPTIONS.floor) / len(fit)


def test_equal_errors_are_no_better():
    fit, _ = drawn()
    ratios = compared(errors(fit, fit), OPTIONS)
    verdict = said(replace(GOOD, against_start=ratios.start))
    assert verdict == "no better than the start" and "against-start" in verdict.codes


def test_a_fit_better_than_what_counts_says_so():
    """Its errors are a millionth of the start's, the ratio is not: encoders' steps would decide."""
    for error, expected in ((1e-7, True), (2e-3, False)):
        metrics = replace(METRICS, fit=replace(NOTHING, horizons=(0.5, 1.0), error=(error / 2, error)))
        verdict = judge(metrics, GOOD, ["joint"])
        assert verdict == "accepted" and ("below-floor" in verdict.codes) == expected


def structure(removed, ratio):
    share, times = (Bound(each, each, each) for each in (removed, ratio))
    return Structure(np.array([removed]), np.array([removed]), (share,), (times,))


@pytest.mark.parametrize(
    ("removed", "ratio", "word"),
    [(0.034, 0.3, "accepted"), (0.15, 0.3, "failed"), (0.04, 2.0, "failed"), (0.005, 2.0, "accepted")],
)
def test_what_a_black_box_explains_is_missing_in_the_model(removed, ratio, word):
    """Real machines are accepted, other machines and soft joints are not; and a trifle does not count."""
    verdict = said(replace(GOOD, structure=structure(removed, ratio)))
    assert verdict == word and ("structure" in verdict.codes) == (word == "failed")


def test_a_joint_that_is_not_explained_fails():
    verdict = said(replace(GOOD, unexplained=(2.1,)))  # an nMSE of 4.5, which was once accepted
    assert verdict == "failed" and verdict.codes[0] == "unexplained" and "explained" in verdict.reasons[0]


@pytest.mark.parametrize("bound", [Bound(-0.4, -0.6, -0.2), Bound(-1.0, -2.2, 0.1)])
def test_roll_outs_hardly_better_than_guesses_fail(bound):
    verdict = said(replace(GOOD, against_guess=bound))
    assert verdict == "failed" and verdict.codes[0] == "against-guess"


def test_torques_are_not_judged_by_roll_outs_that_diverge():
    found = replace(GOOD, basis="torques", against_guess=None, lost=(120, 3))
    verdict = said(found)
    assert verdict == "accepted" and "diverged" not in verdict.codes


def test_a_start_without_masses_is_not_compared_with():
    verdict = said(replace(GOOD, against_start=None))
    assert verdict == "accepted" and "start-unknown" in verdict.codes


def test_problems_and_what_is_not_finite_fail():
    assert said(GOOD, problems=["too few samples"]).reasons[0] == "too few samples"
    assert said(GOOD, problems=["too few samples"]) == "failed"
    assert said(replace(GOOD, finite=False)).codes == ("not-finite",)


def test_limits_to_the_use_of_a_fit_come_first():
    bends = note("vibration", "elbow", low=7.5, high=57.0, times=38.0)
    accepted = said(GOOD, limits=[bends])
    assert accepted == "accepted" and accepted.notes[0] == bends
    refused = said(replace(GOOD, unexplained=(0.9,)), limits=[bends])
    assert refused == "failed" and refused.codes[:2] == ("unexplained", "vibration")


def test_bars_are_those_of_the_options():
    assert said(replace(GOOD, unexplained=(0.4,)), options=JudgeOptions(unexplained=0.3)) == "failed"


def test_a_verdict_is_a_word_with_notes():
    verdict = Verdict("failed", [note("still", "elbow"), "as said before"])
    assert verdict == "failed" and verdict.codes == ("still", "said")
    assert verdict.reasons == ('joint "elbow" never moves in these data', "as said before")


@pytest.mark.parametrize(("factor", "strange"), [(1.0, False), (20.0, False), (0.01, True), (176.0, True)])
def test_a_robot_of_another_weight_is_another_robot(factor, strange):
    robot = dn.systems.furuta().robot
    other = replace(robot, inertia=replace(robot.inertia, mass=factor * robot.inertia.mass))
    found = another_robot(dn.Model(robot), dn.Model(other))
    assert bool(found) == strange
    verdict = said(GOOD, strange=found)
    assert verdict == ("failed" if strange else "accepted")
    assert not strange or f"weigh {factor:g} times" in verdict.reasons[0]
