"""Logs that are not what they seem: goals taken for torques, swapped columns, other units and zeros, a jaw."""

import os
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from robots import random_robot, random_tree

import diffnea as dn
from diffnea.cli.words.suspicions import suspicions
from diffnea.recordings import Recording, RecordingError, load_recording
from diffnea.recordings.diagnosis.goal_signs import following, goal_signs

DATA = Path(os.environ.get("DIFFNEA_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
DT, COUNT, LAG = 0.02, 1500, 0.08
NAMES = ("shoulder_pan", "elbow_flex", "gripper")
STEP = 2 * np.pi / 4096


def servo_log(stuck=False, **changes):
    """Goals of a few sines and positions that lag behind, read by an encoder."""
    time = DT * np.arange(COUNT)
    goal = np.column_stack([0.6 * np.sin(w * time) + 0.3 * np.sin(2.7 * w * time + w) for w in (1, 1.4, 2)])
    q = np.empty_like(goal)
    q[0] = goal[0]
    for k in range(COUNT - 1):
        q[k + 1] = q[k] + (1 - np.exp(-DT / LAG)) * (goal[k] - q[k])
    if stuck:
        q[:, 2] = np.maximum(q[:, 2], 0.2)
    q = STEP * np.round(q / STEP)
    fields = {"time": time, "q": q, "u": goal, "joint_names": NAMES, "input_kind": "goal", **changes}
    return Recording(**fields)


@pytest.fixture(scope="module")
def robot():
    tree = random_tree(1, 3)
    made = random_robot(type(tree)(tree.parents, ("revolute",) * 3, NAMES, tree.link_names), 1)
    limits = (jnp.full(3, -1.5), jnp.full(3, 1.5))
    return eqx.tree_at(lambda r: (r.limits.lower, r.limits.upper), made, limits)


def test_the_lag_of_positions_behind_their_goals_is_found():
    for each in following(servo_log()):
        assert abs(each.lag - LAG) < DT and 0.9 < each.slope < 1.05 and each.left < 0.01


def test_a_log_that_is_right_has_no_signs(robot):
    assert suspicions([servo_log()], robot) == []


def test_goals_taken_for_commands_are_named_with_what_to_type(robot):
    (said,) = suspicions([servo_log(input_kind="command")], robot)
    assert "look like position goals" in said and "--goals" in said and "--actuator servo" in said
    (said,) = suspicions([servo_log(input_kind="command", u=np.degrees(servo_log().u))], robot)
    assert "look like position goals" in said and 'goal = "deg"' in said


def test_torques_are_not_taken_for_goals():
    log, random = servo_log(), np.random.default_rng(0)
    spring = 20 * log.q + random.normal(size=log.q.shape)  # as gravity: in step with positions, of another size
    for torque in (spring, np.gradient(np.gradient(log.q, DT, axis=0), DT, axis=0), random.normal(size=log.q.shape)):
        assert goal_signs(log.replace(u=torque, input_kind="command")) == []


def test_swapped_columns_are_named():
    log = servo_log()
    (said,) = goal_signs(log.replace(q=log.u, u=log.q))
    assert "goals follow positions by" in said and "swapped" in said


@pytest.mark.parametrize(("unit", "size"), [("deg", 180 / np.pi), ("ticks", 4096 / (2 * np.pi))])
def test_one_of_the_two_in_another_unit_is_named(unit, size):
    log = servo_log()
    assert f'units = {{ goal = "{unit}" }}' in goal_signs(log.replace(u=size * log.u))[0]
    assert f'q = "{unit}", goal = "rad"' in goal_signs(log.replace(q=size * log.q))[0]


def test_goals_of_another_zero_are_named():
    log = servo_log()
    (said,) = goal_signs(log.replace(u=log.u + np.array([0.5, 0.0, 0.0])))
    assert "different zeros (shoulder_pan: 0.5)" in said and "goals_from_start = true" in said


def test_a_jaw_that_does_not_reach_its_goals_is_to_be_locked():
    (said,) = goal_signs(servo_log(stuck=True))
    assert said.startswith("gripper: stays") and said.endswith("--lock gripper")


def normalised(log):
    share = log.q / 1.2 * 100  # calibrated to ±1.2 rad: a lattice of its own
    return log.replace(q=share, u=log.u / 1.2 * 100)


@pytest.mark.parametrize(
    ("wrong", "cure"),
    [
        (lambda log: log.replace(q=np.degrees(log.q), u=np.degrees(log.u)), 'units = { q = "deg" }'),
        (lambda log: log.replace(q=np.round(log.q / STEP) + 2048, u=log.u / STEP + 2048), 'units = { q = "ticks" }'),
        (normalised, 'units = { q = "normalised" } and calibration ='),
    ],
)
def test_positions_in_another_unit_are_named_in_one_line(robot, wrong, cure):
    (said,) = suspicions([wrong(servo_log())], robot)
    assert cure in said and "shoulder_pan" in said and "elbow_flex" in said and "\n" not in said


def test_names_that_all_differ_are_said_with_the_line_that_joins_them(tmp_path, robot):
    log = servo_log()
    np.savez(tmp_path / "run.npz", time=log.time, q=log.q, goal=log.u, joint_names=np.array(["a", "b", "c"]))
    cure = r"names = \['shoulder_pan', 'elbow_flex', 'gripper'\]$"
    with pytest.raises(RecordingError, match=cure):
        load_recording(tmp_path / "run.npz", robot)
    np.savez(tmp_path / "two.npz", time=log.time, q=log.q[:, :2], joint_names=np.array(NAMES[:2]))
    with pytest.raises(RecordingError, match=r'no column "q.gripper".* lock gripper$'):
        load_recording(tmp_path / "two.npz", robot)


def test_real_motions_of_an_so_101_are_known_for_what_they_are():
    folder = DATA / "so101"
    if not folder.is_dir():
        pytest.skip("no motions of an SO-101 in $DIFFNEA_DATA or shared/data beside the checkout")
    arm = dn.load_robot(folder / "so101_new_calib.urdf")
    logs = [dn.load_recording(path, arm) for path in sorted(folder.glob("*.npz"))]
    assert not any(goal_signs(log) for log in logs)
    named = ["look like position goals" in str(goal_signs(log.replace(input_kind="command"))) for log in logs]
    swapped = ["swapped" in str(goal_signs(log.replace(q=log.u, u=log.q))) for log in logs]
    assert np.mean(named) > 0.9 and np.mean(swapped) > 0.75
