"""Ripple that nobody has named is found in the torques, with how often it comes again, and not where there is none."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffnea as dn
from diffnea.actuators import Ripple, combine, for_robot
from diffnea.cli.inputs import read_robot
from diffnea.identify.options import Options
from diffnea.identify.problem.measurements.tracks import split
from diffnea.identify.problem.torque_balance import torques
from diffnea.identify.solve.regression.choice import choose
from diffnea.identify.solve.regression.ripple_search import Wave, as_reduction

DT, SECONDS, OFTEN = 0.004, 12.0, 23.7


@pytest.fixture(scope="module")
def robot():
    with jax.enable_x64(True):
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, float), read_robot("dfki_double_pendulum"))


def recorded(robot, ripple: float, unknown: float) -> list[dn.Recording]:
    """Sums of sines; a torque of the first joint comes again with its turns, beside one that no part is like."""
    time, rng = np.arange(0, SECONDS, DT), np.random.default_rng(3)
    rates, phase = 2 * np.pi * rng.uniform(0.1, 0.5, (2, 4)), rng.uniform(0, 2 * np.pi, (2, 4))
    angle = rates[..., None] * time + phase[..., None]
    q, qd, qdd = (
        0.6 * np.sum(factor, axis=1).T
        for factor in (np.sin(angle), rates[..., None] * np.cos(angle), -(rates[..., None] ** 2) * np.sin(angle))
    )
    waves = eqx.tree_at(lambda part: part.cosine, Ripple.none(OFTEN, 2, 1), jnp.array([[ripple], [0.0]]))
    u = torques(dn.Model(robot, combine(for_robot("viscous", robot), waves)), q, qd, qdd, 0 * q).left
    size = np.std(u, axis=0)
    u = u + unknown * size * np.sin(1.3 * time[:, None] + 3 * q[:, ::-1]) + 0.01 * size * rng.standard_normal(u.shape)
    return [dn.Recording(time=time, q=q, qd=qd, qdd=qdd, u=u, joint_names=robot.joint_names)]


def chosen(robot, data):
    with jax.enable_x64(True), np.errstate(all="ignore"):
        parts = split(data, data, robot.joint_names, 2, 0)
        return choose(robot, parts, "auto", "torque", None, "auto", Options())


def resolved(data) -> float:
    """A quarter of what a motion of this span resolves: waves are in step to an eighth of a turn at its ends."""
    return 0.25 * 2 * np.pi / float(np.ptp(np.asarray(data[0].q)[:, 0]))


def test_how_often_it_comes_again_is_found(robot):
    data = recorded(robot, 0.1, 0.1)
    found = chosen(robot, data)
    assert "ripple" in found.actuator.split("+"), [str(note) for note in found.notes]
    assert found.known["reduction"][0][0] == pytest.approx(OFTEN, abs=resolved(data))
    assert not any(found.known["reduction"][1])
    said = [each for each in found.notes if each.code == "chosen-ripple"]
    assert [each.subject for each in said] == [robot.joint_names[0]]


@pytest.mark.parametrize("unknown", [0.0, 0.1, 0.4])
def test_there_is_none_where_none_was(robot, unknown):
    """Whatever else the model lacks."""
    assert "ripple" not in chosen(robot, recorded(robot, 0.0, unknown)).actuator.split("+")


def test_a_fit_learns_the_waves_that_were_found(robot):
    with jax.enable_x64(True):
        data = recorded(robot, 0.4, 0.1)
        fit = dn.fit(robot, data, loss="torque", method="lm")
    parts = getattr(fit.model.actuator, "parts", (fit.model.actuator,))
    (ripple,) = [each for each in parts if isinstance(each, Ripple)]
    assert float(ripple.often[0, 0]) == pytest.approx(OFTEN, abs=resolved(data))
    np.testing.assert_allclose(np.hypot(ripple.cosine[0, 0], ripple.sine[0, 0]), 0.4, rtol=0.15)
    assert not np.asarray(ripple.cosine[1]).any()


def test_joints_with_fewer_waves_have_zeros():
    waves = [Wave(0, 30.0, 1.0), Wave(2, 32.0, 1.0), Wave(2, 96.0, 1.0)]
    assert as_reduction(waves, 3) == [[30.0, 0.0], [0.0, 0.0], [32.0, 96.0]]
