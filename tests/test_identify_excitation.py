"""Excitation: recordings that are too small or too slow for the machine are told from those that are not."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_identify_choice import DT, bigger, motion

import diffnea as dn
from diffnea.actuators import for_robot
from diffnea.cli.inputs import read_robot
from diffnea.identify.options import JudgeOptions, Options
from diffnea.identify.problem.measurements.tracks import split
from diffnea.identify.problem.torque_balance import torques
from diffnea.identify.solve.regression.choice import choose
from diffnea.identify.solve.regression.excitation import Excitation, reference_motion, whole_range

# Of the size and of the pace of the usual motion.
SMALL, SLOW = 0.02, 0.05


@pytest.fixture(scope="module")
def robot():
    with jax.enable_x64(True):
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, float), read_robot("dfki_double_pendulum"))


def excitation(robot, size: float = 1.0, pace: float = 1.0) -> Excitation:
    """Of the same motion, smaller or slower, under dry friction and with noise on torques."""
    with jax.enable_x64(True), np.errstate(all="ignore"):
        model = dn.Model(robot, bigger(bigger(for_robot("viscous+coulomb", robot))))
        q, qd, qdd = (size * pace**k * wave for k, wave in enumerate(motion(1)))
        u = torques(model, q, qd, qdd, 0 * q).left
        u = u + 0.01 * u.std(0) * np.random.default_rng(1).standard_normal(u.shape)
        data = [dn.Recording(time=np.arange(len(q)) * DT, q=q, u=u, qd=qd, qdd=qdd, joint_names=robot.joint_names)]
        found = choose(robot, split(data, data, robot.joint_names, 2, 0), "auto", "auto", None, "auto", Options())
    assert found.excitation is not None
    return found.excitation


@pytest.mark.parametrize(("changes", "codes"), [({}, []), ({"size": SMALL}, ["hint-small-motion"])])
def test_small_motion_is_told(robot, changes, codes):
    found = excitation(robot, **changes)
    assert [each.code for each in found.lacking(robot.joint_names, JudgeOptions())] == codes, found


def test_slow_motion_is_told_by_what_accelerations_take(robot):
    usual, slow = excitation(robot), excitation(robot, pace=SLOW)
    np.testing.assert_array_less(slow.accelerated, 0.1 * usual.accelerated)
    np.testing.assert_array_less(5 * usual.error, slow.error)


def test_a_joint_that_is_well_foretold_or_passive_is_not_blamed():
    still, options = np.zeros(2), JudgeOptions()
    sure = Excitation(error=np.full(2, 0.01), accelerated=still, moved=still, told=np.ones(2, bool))
    passive = Excitation(error=np.ones(2), accelerated=still, moved=still, told=np.zeros(2, bool))
    assert not sure.lacking("ab", options) and not passive.lacking("ab", options)
    assert not sure.scope("ab", options) and not passive.scope("ab", options)
    poor = Excitation(error=np.array([0.2, 0.4]), accelerated=still, moved=still + 0.5, told=np.ones(2, bool))
    said = poor.lacking("ab", options)[0]
    assert said.code == "hint-slow-motion" and said.subject == "b" and "± 40%" in str(said)
    assert poor.scope("ab", options)[0].subject == "b"
    # One joint that moves enough is worth a fit, which says what it is not good for.
    some = replace(poor, accelerated=np.array([0.3, 0.0]))
    assert not some.lacking("ab", options) and some.scope("ab", options)[0].code == "hint-slow-motion"


def test_the_reference_motion_goes_through_the_limits(robot):
    q = 0.01 * motion(1)[0]
    lower, upper = whole_range(robot, q)
    states = reference_motion(robot, q, np.ones(2))
    assert np.all(states.q >= lower) and np.all(states.q <= upper)
    np.testing.assert_allclose(np.ptp(states.q, axis=0), upper - lower, rtol=0.02)
    felt = np.diagonal(np.asarray(dn.mass_matrix(robot, (lower + upper) / 2)))
    np.testing.assert_allclose(np.sqrt(np.mean((states.qdd * felt) ** 2, axis=0)), 1.0, rtol=0.1)
