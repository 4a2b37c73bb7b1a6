"""Where searches of servos start: stiffness by gravity alone, rotors that show, windows, one prior from any start."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffnea as dn
from diffnea.actuators import Coulomb, Delay, Load, Profile, Servo, combine
from diffnea.identify.problem.measurements import tracks as tracks_of
from diffnea.identify.problem.measurements.tracks import Track, split
from diffnea.identify.problem.unknowns import unknowns
from diffnea.identify.servo import table_contact
from diffnea.identify.servo.lanes import lanes
from diffnea.identify.servo.loop_unknowns import freedom
from diffnea.identify.servo.search.jumps import _joints
from diffnea.identify.servo.search.objective import Objective
from diffnea.identify.servo.search.regression_starts import closed_loops
from diffnea.identify.servo.search.rough import posed
from diffnea.models import Model
from diffnea.simulate.delay import Late, profiled

DT, STEP = 0.02, 1.53e-3  # of logs of such servos: seconds and encoder steps
KP, KD, DRY = np.array([9.0, 12.0, 10.0]), np.array([0.4, 0.6, 0.4]), np.array([0.1, 0.15, 0.3])
# The first joint stands upright but for a file's rounding; the others move where gravity changes little.
ARM = """<mujoco><worldbody><body name="base" pos="0 0 0.1"><joint name="pan" axis="1e-5 0 1"/>
  <inertial pos="0.02 0 0.02" mass="0.2" diaginertia="1e-4 1e-4 1e-4"/>
  <body name="a" pos="0 0 0.05"><joint name="lift" axis="0 1 0"/>
  <inertial pos="0.1 0 0" mass="0.3" diaginertia="1e-4 4e-4 4e-4"/>
  <body name="b" pos="0.2 0 0"><joint name="elbow" axis="0 1 0"/>
  <inertial pos="0.1 0 0.01" mass="0.3" diaginertia="5e-5 2e-4 2e-4"/>
  </body></body></body></worldbody></mujoco>"""


@pytest.fixture(scope="module")
def robot(tmp_path_factory) -> dn.Robot:
    path = tmp_path_factory.mktemp("upright") / "arm.xml"
    path.write_text(ARM)
    return dn.load_robot(path)


@pytest.fixture(scope="module")
def motions(robot) -> list[Track]:
    """Slow waves in which the pan turns with the lift, so that its error goes with its trace of gravity."""
    true = Model(
        replace(robot, armature=jnp.full(3, 5e-3)),
        combine(
            Servo.of(KP, KD, steps=8), Coulomb.of(DRY), Load.of(np.full(3, 0.1), np.full(3, 0.3)), Delay.of(1.5, 3)
        ),
    )
    found, time = [], np.arange(750) * DT
    for seed in range(3):
        rng = np.random.default_rng(seed)
        pace = 2 * np.pi * np.array([0.2, 0.2, 0.31]) * rng.uniform(0.8, 1.2)
        u = np.array([0.5, 0.35, 0.35]) * np.sin(time[:, None] * pace + rng.uniform(0, 6))
        q = np.asarray(dn.rollout(true, u[0], np.zeros(3), u, DT).q)
        found.append(dn.Recording(time, np.round(q / STEP) * STEP, u, joint_names=robot.joint_names, name=f"{seed}"))
    return list(split(found, None, robot.joint_names, 3, 0).fitted)


def test_stiffness_is_of_joints_that_gravity_acts_on(robot, motions):
    closed = closed_loops(robot, motions)
    assert np.isnan(closed.stiffness[0])  # a millionth of what acts on its neighbours
    assert np.allclose(closed.stiffness[1:], KP[1:], rtol=0.25)
    assert np.allclose(closed.rest, 0.0)


def test_a_constant_is_there_for_actuators_that_have_one(robot, motions):
    """Goals of another zero: what they are off by is not taken for stiffness."""
    moved = [replace(track, u=track.u + np.array([0.0, 0.05, -0.04])) for track in motions]
    with_it, without = (closed_loops(robot, moved, constant) for constant in (True, False))
    assert np.any(np.abs(with_it.rest) > 0.02) and np.all(without.rest == 0)


def test_rotors_that_no_file_has_start_where_they_show(robot, motions):
    free = unknowns(robot, ("inertia", "armature", "actuator"), "servo+coulomb+delay", jax.random.key(0))
    begun = posed(free, motions, from_name=True)
    model = begun.model(jnp.asarray(begun.start))
    loop = model.actuator.loop
    assert loop is not None
    assert np.allclose(np.asarray(model.robot.armature) / np.asarray(loop.damping), 5e-3, rtol=1e-6)
    given = unknowns(
        replace(robot, armature=jnp.array([0.01, 0.0, 0.02])),
        ("inertia", "armature", "actuator"),
        "servo+coulomb+delay",
        jax.random.key(0),
    )
    stated = posed(given, motions, from_name=True)
    rotors = np.asarray(stated.model(jnp.asarray(stated.start)).robot.armature)
    assert np.allclose(rotors[[0, 2]], [0.01, 0.02]) and 1e-4 < rotors[1] < 0.01


def test_rotors_jump_with_their_own_joints(robot):
    free = freedom(unknowns(robot, ("inertia", "armature", "actuator"), "servo+coulomb+delay", jax.random.key(0)))
    own = _joints(free)
    # Centres of mass are of several joints; then three rotors, and all of the actuator.
    assert np.sum(own < 0) == 9 and np.array_equal(own[9:12], [0, 1, 2])


def test_the_prior_does_not_change_with_the_start(robot, motions):
    """The same numbers cost the same, wherever a search goes on from: tables are compared by it."""
    free = unknowns(robot, ("inertia", "armature", "actuator"), "servo+coulomb+load+delay", jax.random.key(0))
    begun = posed(free, motions, from_name=True)
    data = lanes(motions, begun.tree[1].most_delay)
    names = [name.split(" ")[-1] for name in posed_labels(begun)]
    theta = begun.start.copy()
    theta[[name == "armature" for name in names]] = -60.0  # no rotor at all
    before = Objective(data, begun).compared(theta[None])[0]
    after = Objective(data, begun.at(theta)).compared(theta[None])[0]
    assert np.allclose(before.rms, after.rms)
    assert after.loss == pytest.approx(before.loss, rel=1e-9)


def posed_labels(freed) -> list[str]:
    return dn.parameters.labels(freed.tree[0], freed.masks[0]) + [""] * (len(freed.start) - 12)


def test_windows_begin_where_the_robot_was(robot, motions):
    data = lanes(motions, 8)
    cut = data.windowed(100)
    for k in range(data.count):
        rows = np.flatnonzero(data.motion.ravel() == k)
        assert np.array_equal(np.flatnonzero(cut.first.ravel()[rows]), np.arange(0, len(rows), 100))
    wrong = freedom(unknowns(robot, None, combine(Servo.of(0.2 * KP, KD), Coulomb.of(DRY)), jax.random.key(0)))
    left = np.abs(Objective(cut, wrong).predictor(wrong.models(wrong.start[None]))[0] - data.measured)
    assert left[cut.first].max() < 1e-6 < 0.05 < left[data.motion >= 0].max()
    whole, short = (Objective(each, wrong).compared(wrong.start[None])[0] for each in (data, data.windowed(10)))
    assert short.rms.mean() < 0.5 * whole.rms.mean()  # a loop that is far too soft is led back again and again


def test_tables_of_one_and_of_two_points_are_of_one_form(robot, motions):
    first = table_contact.candidates(robot, motions)
    beside = table_contact.beside(first[0])
    forms = {jax.tree.structure(each) for each in (*first, *beside)}
    assert len(forms) == 1
    # Twice the same point pushes as one does.
    one, q = table_contact.at_one_point(first[-1]), jnp.array([0.1, 0.3, 0.2])
    assert float(first[-1].potential(robot, q)) == pytest.approx(float(one.potential(robot, q)))


def test_a_profile_follows_goals_of_any_length(motions):
    """As it does sample by sample, with a program for all lengths within a block."""
    late = Late(jnp.full(3, 1.5), 8, Profile.of(np.full(3, 0.4), np.full(3, 3.0)).profile)
    before = tracks_of._profiled._cache_size()  # pyright: ignore[reportAttributeAccessIssue]
    for rows in (200, 333, 700):
        track = motions[0].take(slice(0, rows))
        prompt = track.arrived(late._replace(profile=None))
        assert late.profile is not None
        wanted = profiled(jnp.asarray(prompt), late.profile, jnp.asarray(DT)).mean
        assert np.allclose(track.arrived(late), wanted, atol=1e-12)
    after = tracks_of._profiled._cache_size()  # pyright: ignore[reportAttributeAccessIssue]
    assert after - before <= 1
