"""Recordings whose inputs are position goals: what says so, their times, units and names."""

import json

import numpy as np
import pytest
from recording_files import NAMES, TIME, Q, two_joints

from diffnea.recordings import Recording, RecordingError, as_held, concatenate, load_recording, regular, save_recording
from diffnea.recordings.recording import as_list

GOAL = Q + 0.01


@pytest.fixture(scope="module")
def robot():
    return two_joints()


def write_csv(path, columns):
    values = np.column_stack(list(columns.values()))
    np.savetxt(path, values, fmt="%.17g", delimiter=",", header=",".join(columns), comments="")


def goals(**more):
    return Recording(time=TIME, q=Q, u=GOAL, joint_names=NAMES, input_kind="goal", **more)


# What says so -----------------------------------------------------------------------------------------------------


def test_goal_columns_are_the_inputs_and_say_so(tmp_path, robot):
    write_csv(tmp_path / "run.csv", {"time": TIME, "q.arm": Q[:, 0], "q.elbow": Q[:, 1], "goal.arm": GOAL[:, 0]})
    found = load_recording(tmp_path / "run.csv", robot)
    assert found.input_kind == "goal" and found.driven == (False, True)
    np.testing.assert_array_equal(found.u, np.column_stack([np.zeros(len(TIME)), GOAL[:, 0]]))


def test_inputs_are_commands_unless_something_says_otherwise(tmp_path):
    columns = {"time": TIME, "q.arm": Q[:, 0], "u.arm": np.sin(TIME), "goal.arm": GOAL[:, 0]}
    write_csv(tmp_path / "run.csv", columns)
    both = load_recording(tmp_path / "run.csv")
    assert both.input_kind == "goal" and "columns not used: u.arm" in both.notes
    torque = load_recording(tmp_path / "run.csv", columns={"input": "command"})
    assert torque.input_kind == "command"
    np.testing.assert_array_equal(torque.u[:, 0], np.sin(TIME))
    del columns["goal.arm"]
    write_csv(tmp_path / "plain.csv", columns)
    assert load_recording(tmp_path / "plain.csv").input_kind == "command"
    said = load_recording(tmp_path / "plain.csv", columns={"input": "goal", "units": {"q": "deg"}})
    assert said.input_kind == "goal"
    np.testing.assert_allclose(said.u[:, 0], np.radians(np.sin(TIME)))  # goals are in the units of positions


@pytest.mark.parametrize("ending", [".csv", ".npz"])
def test_goals_are_goals_after_they_were_saved(tmp_path, ending):
    save_recording(goals(), tmp_path / f"run{ending}")
    back = load_recording(tmp_path / f"run{ending}")
    assert back.input_kind == "goal"
    np.testing.assert_array_equal(back.u, GOAL)


def test_the_kind_of_input_stays_with_parts_and_resampled_recordings():
    late = goals().replace(time=TIME + 1e-3 * np.sin(40 * TIME))
    for made in (goals()[3:20], goals().between(0.01, 0.1), *regular(late), *regular(goals(), 100.0)):
        assert made.input_kind == "goal"
    assert concatenate([goals()[:20], goals()[20:]]).input_kind == "goal"


def test_kinds_that_do_not_go_together_are_refused():
    plain = Recording(time=TIME, q=Q, u=GOAL, joint_names=NAMES)
    with pytest.raises(RecordingError, match="recording 1 has goals as inputs, the first commands; use one kind"):
        as_list([plain, goals()])
    with pytest.raises(RecordingError, match="position goals, which are commands; leave measured out"):
        as_held(goals())
    with pytest.raises(RecordingError, match="input_kind is 'torque'; use 'command' or 'goal'"):
        Recording(time=TIME, q=Q, u=GOAL, input_kind="torque")


# Times ------------------------------------------------------------------------------------------------------------


def test_goals_with_times_of_their_own_are_held_from_one_to_the_next(tmp_path):
    own = np.arange(0.0, TIME[-1], 0.0131)
    sent = np.column_stack([np.arange(len(own)), -np.arange(len(own))])
    arrays = {"time": TIME, "q": Q, "goal_time": own, "goal": sent, "joints": np.array(NAMES)}
    np.savez(tmp_path / "run.npz", allow_pickle=False, **arrays)
    found = load_recording(tmp_path / "run.npz")
    assert found.input_kind == "goal" and found.joint_names == NAMES
    latest = np.array([np.flatnonzero(own <= t)[-1] for t in TIME])
    np.testing.assert_array_equal(found.u, sent[latest])


def test_samples_before_the_first_goal_are_left_out(tmp_path):
    np.savez(tmp_path / "run.npz", time=TIME, q=Q, goal_time=TIME[20:], goal=GOAL[20:])
    found = load_recording(tmp_path / "run.npz")
    assert len(found) == len(TIME) - 19 and "19 samples before the first goal are left out" in found.notes
    np.testing.assert_array_equal(found.u[:2], GOAL[[20, 20]])  # one period before it, the first goal counts
    np.savez(tmp_path / "late.npz", time=TIME, q=Q, goal_time=TIME + 100, goal=GOAL)
    with pytest.raises(RecordingError, match="goals begin at 100 s, after the last sample"):
        load_recording(tmp_path / "late.npz")
    np.savez(tmp_path / "odd.npz", time=TIME, q=Q, goal_time=TIME[:7], goal=GOAL[:5])
    with pytest.raises(RecordingError, match="columns have different lengths"):
        load_recording(tmp_path / "odd.npz")


def test_goals_that_count_from_the_first_position(tmp_path):
    np.savez(tmp_path / "run.npz", time=TIME, q=Q, goal=GOAL - GOAL[0])
    found = load_recording(tmp_path / "run.npz", columns={"goals_from_start": True})
    np.testing.assert_allclose(found.u, GOAL - GOAL[0] + Q[0], atol=1e-15)
    np.savez(tmp_path / "plain.npz", time=TIME, q=Q, u=GOAL)
    with pytest.raises(RecordingError, match="goals_from_start is for position goals"):
        load_recording(tmp_path / "plain.npz", columns={"goals_from_start": True})


def test_rows_that_are_no_numbers_are_dropped_with_their_goals(tmp_path):
    broken = Q.copy()
    broken[7, 1] = np.nan
    np.savez(tmp_path / "run.npz", time=TIME, q=broken, goal_time=TIME[::2], goal=GOAL[::2])
    found = load_recording(tmp_path / "run.npz", columns={"repair": True})
    assert len(found) == len(TIME) - 1
    np.testing.assert_array_equal(found.u[7], GOAL[8])


# Names ------------------------------------------------------------------------------------------------------------


def test_joints_of_a_log_without_names_are_named_by_the_map(tmp_path, robot):
    np.savez(tmp_path / "run.npz", time=TIME, q=Q, goal=GOAL)
    found = load_recording(tmp_path / "run.npz", robot, {"names": ["arm", "elbow"]})
    np.testing.assert_array_equal(found.q, Q[:, ::-1])  # the robot has them the other way round
    np.testing.assert_array_equal(found.u, GOAL[:, ::-1])
    np.savez(tmp_path / "named.npz", time=TIME, q=Q, goal=GOAL, joint_names=np.array(["left", "right"]))
    again = load_recording(tmp_path / "named.npz", robot, {"names": ["arm", "elbow"]})
    np.testing.assert_array_equal(again.q, found.q)
    with pytest.raises(RecordingError, match="names are arm; give 2 different ones"):
        load_recording(tmp_path / "run.npz", robot, {"names": ["arm"]})


def test_the_joints_of_an_so_arm_are_known_by_both_their_names(tmp_path):
    from robots import random_robot, random_tree

    tree = random_tree(1, 3)
    ours = ("shoulder_pan", "shoulder_lift", "wrist_roll")
    arm = random_robot(type(tree)(tree.parents, tree.kinds, ours, tree.link_names), 1)
    six = np.column_stack([np.sin(TIME + k) for k in range(6)])
    theirs = np.array(["Rotation", "Pitch", "Elbow", "Wrist_Pitch", "Wrist_Roll", "Jaw"])
    np.savez(tmp_path / "run.npz", time=TIME, q=six, goal=six, joints=theirs)
    found = load_recording(tmp_path / "run.npz", arm)
    np.testing.assert_array_equal(found.q, six[:, [0, 1, 4]])
    assert "joints Rotation, Pitch" in found.notes[0]


# Units ------------------------------------------------------------------------------------------------------------


CALIBRATION = {
    "arm": {"id": 1, "drive_mode": 0, "homing_offset": -46, "range_min": 1024, "range_max": 3072},
    "gripper": {"id": 2, "drive_mode": 0, "homing_offset": 10, "range_min": 2048, "range_max": 3072},
}


def test_servo_units_become_radians_about_the_middle_of_the_calibrated_range(tmp_path):
    (tmp_path / "follower.json").write_text(json.dumps(CALIBRATION))
    share, jaw = np.linspace(-100, 100, len(TIME)), np.linspace(0, 100, len(TIME))
    write_csv(tmp_path / "run.csv", {"time": TIME, "q.arm": share, "goal.arm": share / 2, "q.gripper": jaw})
    (tmp_path / "map.toml").write_text('calibration = "follower.json"\nunits = { q = "normalised" }\n')
    found = load_recording(tmp_path / "run.csv", columns=tmp_path / "map.toml")  # found beside the map
    np.testing.assert_allclose(found.q[[0, -1], 0], [-np.pi / 2, np.pi / 2])
    np.testing.assert_allclose(found.u[[0, -1], 0], [-np.pi / 4, np.pi / 4])
    np.testing.assert_allclose(found.q[[0, -1], 1], [-np.pi / 4, np.pi / 4])
    write_csv(tmp_path / "ticks.csv", {"time": TIME, "q.arm": 1024 + 10.24 * (share + 100)})
    ticks = load_recording(tmp_path / "ticks.csv", columns={"units": {"q": "ticks"}})
    np.testing.assert_allclose(ticks.q, found.q[:, :1])


def test_without_a_calibration_shares_are_of_the_limits_of_the_robot_file(tmp_path, robot):
    import equinox as eqx
    import jax.numpy as jnp

    limits = (jnp.array([-1.0, 0.5]), jnp.array([1.0, 1.5]))
    limited = eqx.tree_at(lambda r: (r.limits.lower, r.limits.upper), robot, limits)
    share = np.linspace(-100, 100, len(TIME))
    write_csv(tmp_path / "run.csv", {"time": TIME, "q.arm": share, "q.elbow": share})
    found = load_recording(tmp_path / "run.csv", limited, {"units": {"q": "normalised"}})
    np.testing.assert_allclose(found.q[[0, -1]], [[-1.0, 0.5], [1.0, 1.5]])
    with pytest.raises(RecordingError, match='the range of joint "arm" is not known; give calibration ='):
        load_recording(tmp_path / "run.csv", columns={"units": {"q": "normalised"}})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2]", "holds no motors"),
        ("{", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ('{"arm": {"range_min": 3, "range_max": 3}}', "motor 'arm' has range_min 3 and range_max 3; give two ticks"),
        ('{"arm": {"range_min": NaN, "range_max": 3}}', "give two ticks"),
        ('{"arm": 5}', "motor 'arm' has range_min None"),
        ("{" + " " * (1 << 20) + "}", "give LeRobot's JSON file"),
    ],
)
def test_bad_calibration_files_are_refused_in_one_line(tmp_path, content, message):
    write_csv(tmp_path / "run.csv", {"time": TIME, "q.arm": TIME})
    (tmp_path / "bad.json").write_text(content)
    with pytest.raises(RecordingError, match=message) as caught:
        load_recording(tmp_path / "run.csv", columns={"calibration": str(tmp_path / "bad.json")})
    assert "\n" not in str(caught.value) and "bad.json" in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"input": "torque"}, "input is 'torque'; use 'command' or 'goal'"),
        ({"names": "arm"}, "names is 'arm'; give a list"),
        ({"calibration": 3}, "calibration is 3; give the path"),
        ({"calibration": "absent.json"}, "cannot be read"),
        ({"units": {"goal": "Nm"}}, r"unit is 'Nm'; use rad, deg, .* normalised"),
    ],
)
def test_bad_column_maps_are_refused_in_one_line(tmp_path, columns, message):
    write_csv(tmp_path / "run.csv", {"time": TIME, "q.arm": TIME, "goal.arm": TIME})
    with pytest.raises(RecordingError, match=message):
        load_recording(tmp_path / "run.csv", columns=columns)
