"""Fits of a part: what is named is learned, and nothing else moves, to the last bit."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffnea as dn
from diffnea import parameters
from diffnea.cli.commands.fit import Fit
from diffnea.cli.inputs import read_robot
from diffnea.identify.determine.zero_positions import far_zeros

ZEROS = np.array([0.06, -0.09])


@pytest.fixture(scope="module")
def robot():
    return read_robot("dfki_double_pendulum")


def samples(robot, seed=0):
    """Exact samples of a robot that is driven at both joints."""
    rng = np.random.default_rng(seed)
    q, qd, u = rng.uniform(-2, 2, (200, 2)), rng.uniform(-3, 3, (200, 2)), rng.normal(size=(200, 2))
    return dn.Samples(q=q, qd=qd, u=u, qdd=np.asarray(dn.forward_dynamics(robot, q, qd, u)), driven=(True, True))


def carrying(robot, mass=0.4):
    """With a point mass at a place of the last link."""
    place = jnp.array([0.03, 0.02, -0.15])
    matrix = mass * (place @ place * jnp.eye(3) - jnp.outer(place, place))
    load = dn.Inertia.from_moments(jnp.asarray(mass), mass * place, matrix)
    whole = jax.tree.map(lambda own, more: own.at[-1].add(more), robot.inertia, load)
    return replace(robot, inertia=whole)


def rezeroed(robot, zeros):
    """Whose joints stand elsewhere than their coordinates say."""
    virtual = parameters.encode(robot)
    masks = parameters.learnable(virtual, ("calibration",))
    return parameters.decode(parameters.unpack(virtual, masks, jnp.asarray(zeros)))


def unchanged(found, robot, *parts):
    """Leaves of these parts are the same to the last bit."""
    for part in parts:
        for ours, theirs in zip(
            jax.tree.leaves(getattr(found, part)), jax.tree.leaves(getattr(robot, part)), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)


def test_a_zero_position_is_a_shifted_coordinate(robot):
    """The law: the robot with other zeros at q is the robot at q + zeros."""
    q, qd, u = np.random.default_rng(1).normal(size=(3, 5, 2))
    moved = dn.forward_dynamics(rezeroed(robot, ZEROS), q, qd, u)
    np.testing.assert_allclose(moved, dn.forward_dynamics(robot, q + ZEROS, qd, u), rtol=1e-10, atol=1e-10)
    cartpole = dn.systems.cartpole().robot  # a joint that slides, too
    moved = dn.forward_kinematics(rezeroed(cartpole, ZEROS), q)
    np.testing.assert_allclose(moved, dn.forward_kinematics(cartpole, q + ZEROS), atol=1e-10)


def test_a_payload_is_found_at_the_last_link_alone(robot):
    fit = dn.fit(
        robot,
        samples(carrying(robot)),
        learn=("inertia",),
        links=robot.link_names[-1:],
        actuator="ideal",
        loss="acceleration",
        method="lm",
    )
    assert fit.verdict == "accepted" and fit.metrics["nmse"] < 1e-12
    np.testing.assert_array_equal(fit.robot.inertia.parameters[0], robot.inertia.parameters[0])
    unchanged(fit.robot, robot, "placement", "armature", "damping", "gravity")
    assert {row.name.split()[0] for row in fit.table} == {robot.link_names[-1]}
    assert fit.config["links"] == list(robot.link_names[-1:])


def test_a_zero_that_is_far_from_the_file_s_is_told(robot):
    found = far_zeros(robot, rezeroed(robot, np.array([0.5, -2.0])))
    assert [(each.code, each.subject) for each in found] == [("far-zero", "joint1"), ("far-zero", "joint2")]
    np.testing.assert_allclose([each.values["by"] for each in found], [0.5, -2.0], rtol=1e-9)
    assert far_zeros(robot, rezeroed(robot, ZEROS)) == []


def test_a_calibration_finds_the_zeros_and_leaves_the_masses(robot):
    fit = dn.fit(
        robot,
        samples(rezeroed(robot, ZEROS)),
        learn=("calibration",),
        actuator="ideal",
        loss="acceleration",
        method="lm",
    )
    assert fit.verdict == "accepted" and fit.metrics["nmse"] < 1e-12 and fit.config["learn"] == ["calibration"]
    unchanged(fit.robot, robot, "inertia", "armature", "axis")
    q = np.array([0.4, 0.2])
    np.testing.assert_allclose(dn.forward_kinematics(fit.robot, q), dn.forward_kinematics(robot, q + ZEROS), atol=1e-6)
    assert fit.known.counts == {"unknowns": 2, "rank": 2, "structural_rank": 2}
    assert all(row.identifiable for row in fit.table) and {row.unit for row in fit.table} == {"rad"}
    zeros = {each.formula: each for each in fit.identifiable}
    assert list(zeros) == [f"zero position of {joint}" for joint in robot.joint_names]
    for each, zero in zip(zeros.values(), ZEROS, strict=True):
        assert (each.value, each.unit) == (pytest.approx(zero, abs=1e-6), "rad")
        assert each.of(dn.Model(robot)) == pytest.approx(0, abs=1e-9)  # counted from the robot file


def test_joints_can_be_chosen(robot):
    only = robot.joint_names[1:]
    truth = rezeroed(robot, ZEROS * [0, 1])
    fit = dn.fit(
        robot, samples(truth), learn=("calibration",), joints=only, actuator="ideal", loss="acceleration", method="lm"
    )
    assert fit.metrics["nmse"] < 1e-12
    np.testing.assert_array_equal(fit.robot.placement.rotation[0], robot.placement.rotation[0])
    rotor = replace(robot, armature=robot.armature.at[1].add(0.05))
    fit = dn.fit(
        robot, samples(rotor), learn=("armature",), joints=only, actuator="ideal", loss="acceleration", method="lm"
    )
    assert float(fit.robot.armature[1]) == pytest.approx(float(rotor.armature[1]), rel=1e-6)
    assert float(fit.robot.armature[0]) == float(robot.armature[0])
    assert [row.name for row in fit.table] == [f"{only[0]} armature"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"learn": ("armature",), "links": ("x",)}, "links are named, but learn has no inertia"),
        ({"learn": ("inertia",), "links": ("x",)}, 'links: there is no "x"; use any of '),
        ({"learn": ("inertia",), "joints": ("x",)}, "joints are named, but learn has no armature or calibration"),
        ({"learn": ("inertia",), "links": ("link2",), "method": "linear"}, "method linear learns all inertias"),
    ],
)
def test_what_cannot_be_chosen_is_said(robot, arguments, line):
    if arguments["links" if "links" in arguments else "joints"] == ("link2",):
        arguments = {**arguments, "links": robot.link_names[-1:]}
    with pytest.raises(ValueError, match=line):
        dn.fit(robot, samples(robot), **arguments)


def test_the_command_takes_short_hands():
    assert Fit("robot", ("x",), learn=("payload",))._chosen(False) == (("payload",), "auto")
    assert Fit("robot", ("x",), learn=("friction",))._chosen(False) == (("actuator",), "stribeck")
    assert Fit("robot", ("x",), learn=("friction",))._chosen(True) == (("actuator",), "auto")


def test_numbers_that_exact_data_do_not_determine_stay_those_of_the_file(robot):
    """Planar arms: what is across the plane is unknown, and starts were perturbed there too."""
    fit = dn.fit(robot, samples(carrying(robot, 0.2)), learn=("inertia",), actuator="ideal", loss="acceleration")
    assert fit.verdict == "accepted" and fit.metrics["nmse"] < 1e-12
    axis = int(np.argmax(np.abs(np.asarray(robot.axis[0]))))
    across = np.asarray(fit.robot.inertia.first_moment)[:, axis] / np.asarray(fit.robot.inertia.mass)
    np.testing.assert_allclose(across, np.asarray(robot.inertia.first_moment)[:, axis], atol=1e-12)
    assert abs(fit.robot.inertia.mass[0] / robot.inertia.mass[0] - 1) < 0.5


class Drag(dn.actuators.AbstractActuator):
    """Drag of a fluid, `c |q̇| q̇`: a part that the package does not have."""

    raw: jax.Array

    @property
    def num_joints(self):
        return self.raw.shape[-1]

    @property
    def energy_class(self):
        return "bounded"

    def resistance(self, q, qd):
        return dn.actuators.Resistance(jnp.zeros_like(qd), jax.nn.softplus(self.raw) * jnp.abs(qd))


def test_an_actuator_of_one_s_own_is_learned_and_read_back(tmp_path):
    robot, truth = dn.systems.cartpole().robot, jnp.array([2.0, -4.0])
    q, qd, u = np.random.default_rng(0).normal(size=(3, 200, 2)) * [[1.0, 3.0]]
    u = u * [1.0, 0.0]
    samples = dn.Samples(q=q, qd=qd, qdd=dn.Model(robot, Drag(truth))(q, qd, u), u=u)
    fit = dn.fit(robot, samples, actuator=Drag(jnp.zeros(2)), learn=("actuator",), loss="acceleration")
    assert np.allclose(fit.model.actuator.raw, truth, atol=1e-4)
    fit.save(tmp_path)
    with pytest.raises(dn.FitFileError, match=r'a part "Drag" .* if it is yours, load_fit\(folder, parts=\[Drag\]\)'):
        dn.load_fit(tmp_path)
    again = dn.load_fit(tmp_path, parts=[Drag])
    assert type(again.model.actuator) is Drag
    assert np.array_equal(again.model(q, qd, u), fit.model(q, qd, u))
    assert repr(again) == "Fit of cartpole (actuator, Drag): accepted; print it for all"
    assert "<b>cartpole: accepted</b>" in again._repr_html_() and len(repr(again.table)) < 80
