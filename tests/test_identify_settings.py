"""Known coefficients: set exactly, not learned, and the rest is learned as before."""

import json

import jax
import numpy as np
import pytest
from test_fit_parts import samples

import diffnea as dn
from diffnea import actuators
from diffnea.cli import main
from diffnea.cli.commands.fit import _known
from diffnea.cli.inputs import read_robot
from diffnea.identify.problem.known_coefficients import COEFFICIENTS, with_known
from diffnea.identify.problem.open_scale import refuse_open_scale
from diffnea.identify.problem.unknowns import unknowns


@pytest.fixture(scope="module")
def robot():
    return read_robot("dfki_double_pendulum")


OF_SERVOS = {
    "kp": lambda made: made.loop.stiffness,
    "kd": lambda made: made.loop.damping,
    "ki": lambda made: made.integral,
    "play": lambda made: made.slack,
    "torque_limit": lambda made: made.bounds[0],
    "goal_speed": lambda made: made.profile.speed,
    "goal_acceleration": lambda made: made.profile.acceleration,
}


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_every_coefficient_can_be_set_and_only_it_is_fixed(robot, name):
    motor = name in ("torque_constant", "emf_constant", "winding", "gear")
    parts = "motor" if motor else "viscous+coulomb" if name == "coulomb" else "delay+gain+stribeck"
    parts = "servo+integral+play+limit+profile" if name in OF_SERVOS else parts
    made = actuators.for_robot(parts, robot)
    value = np.array([1.25, 2.5]) if name != "delay" else np.array([1.25])
    found, masks = with_known(made, {name: value})
    part = next(p for p in getattr(found, "parts", (found,)) if isinstance(p, tuple(c[0] for c in COEFFICIENTS[name])))
    set_to = OF_SERVOS[name](found) if name in OF_SERVOS else getattr(part, name)
    np.testing.assert_allclose(set_to, np.broadcast_to(value, 2), rtol=1e-5)
    fixed = [mask for mask in jax.tree.leaves(masks) if not mask.any()]
    assert len(fixed) == 1 and sum(mask.sum() for mask in jax.tree.leaves(masks)) > 0
    for before, after, mask in zip(*map(jax.tree.leaves, (made, found, masks)), strict=True):
        np.testing.assert_array_equal(np.asarray(before)[mask], np.asarray(after)[mask])


def test_what_is_known_is_not_learned(robot):
    """With the torque constant known, back-EMF and masses follow; the constant itself stays."""
    truth = dn.Model(robot, actuators.Motor.of(0.8, 2.0, 1.0, 0.5, num_joints=2))
    given = samples(robot)
    data = dn.Samples(q=given.q, qd=given.qd, u=given.u, qdd=np.asarray(truth(given.q, given.qd, given.u)))
    known = {"torque_constant": 0.8, "winding": 2.0, "gear": 1.0}
    fit = dn.fit(robot, data, learn=(), actuator="motor", known=known, method="lm")
    assert fit.metrics["nmse"] < 1e-12 and fit.config["known"] == known
    motor = fit.model.actuator
    np.testing.assert_allclose(motor.torque_constant, 0.8, rtol=1e-12)
    np.testing.assert_allclose(motor.emf_constant, 0.5, rtol=1e-6)
    assert {row.name.split(" ", 1)[1] for row in fit.table} == {"back-EMF damping", "back-EMF constant"}


@pytest.mark.parametrize(
    ("known", "line"),
    [
        ({"delay": 2}, 'known has "delay", which the actuator has not; it has viscous'),
        ({"colour": 2}, 'known has "colour"'),
        ({"viscous": -1.0}, "known viscous is .-1.0.; give numbers from 0 on"),
    ],
)
def test_what_cannot_be_set_is_said(robot, known, line):
    with pytest.raises(ValueError, match=line):
        with_known(actuators.for_robot("viscous", robot), known)


def test_the_command_reads_settings(tmp_path, capsys):
    assert _known(("delay=2", "viscous=0.1,0.2")) == {"delay": [2.0], "viscous": [0.1, 0.2]}
    log = str(tmp_path / "fall.csv")
    assert main(["simulate", "cartpole", "--q", "0", "2.5", "--seconds", "2", "--out", log, "--json"]) == 0
    assert main(["fit", "cartpole", log, "--set", "delay=often", "--json"]) == 1
    printed = capsys.readouterr()
    assert printed.err == 'diffnea: fit: --set has "delay=often"; give NAME=NUMBER, or a number a joint with commas\n'
    assert json.loads(printed.out)["samples"] == 501


def test_a_gain_is_not_learned_from_torques_alone(robot):
    """A robot without mass under a gain of zero would take no torque."""
    with pytest.raises(ValueError, match="masses are known up to a factor.*fix gain"):
        dn.fit(robot, samples(robot), actuator="gain+viscous", loss="torque")
    ways = jax.random.key(0), robot.link_names[1:], None
    refuse_open_scale(unknowns(robot, ("inertia",), "gain+viscous", *ways), "torque")  # one link's mass is known
    fit = dn.fit(robot, samples(robot), actuator="gain+viscous", loss="torque", known={"gain": 1.0}, method="lm")
    np.testing.assert_allclose(fit.robot.inertia.mass.sum(), robot.inertia.mass.sum(), rtol=0.05)
