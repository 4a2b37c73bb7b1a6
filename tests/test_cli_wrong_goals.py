"""Logs of goals that are wrong, through the command line: each is named in one line, with what to type."""

import math

import numpy as np
import pytest

from diffnea.cli import main

NAMES = ("pan", "elbow", "gripper")
ARM = """<robot name="arm"><link name="base"/>{}</robot>"""
LINK = """<link name="{0}_link"><inertial><origin xyz="0.1 0 0"/><mass value="0.2"/>
<inertia ixx="1e-4" iyy="3e-4" izz="3e-4" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="{0}" type="revolute"><parent link="{1}"/><child link="{0}_link"/><origin xyz="0.2 0 0"/>
<axis xyz="0 1 0"/><limit lower="-1.6" upper="1.6" effort="3" velocity="6"/></joint>"""
DT, ROWS, STEP = 0.02, 900, 2 * math.pi / 4096


def columns() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Time, goals and positions that follow them 80 ms behind, read by an encoder."""
    time = DT * np.arange(ROWS)
    goal = np.column_stack([0.7 * np.sin(w * time) + 0.4 * np.sin(2.7 * w * time + w) for w in (1.0, 1.4, 2.0)])
    q = np.empty_like(goal)
    q[0] = goal[0]
    for k in range(ROWS - 1):
        q[k + 1] = q[k] + (1 - np.exp(-DT / 0.08)) * (goal[k] - q[k])
    return time, goal, STEP * np.round(q / STEP)


@pytest.fixture(scope="module")
def robot(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("arm") / "arm.urdf"
    parents = ("base", "pan_link", "elbow_link")
    path.write_text(ARM.format("".join(LINK.format(*pair) for pair in zip(NAMES, parents, strict=True))))
    return str(path)


def written(path, time, goal, q, names=NAMES) -> str:
    head = ["time", *(f"q.{name}" for name in names), *(f"goal.{name}" for name in names)]
    rows = np.column_stack([time, q[:, : len(names)], goal[:, : len(names)]])
    path.write_text("\n".join([",".join(head), *(",".join(map(repr, row)) for row in rows.tolist())]) + "\n")
    return str(path)


WRONG = {
    "degrees": (lambda goal, q: (np.degrees(goal), np.degrees(q)), 'units = { q = "deg" }'),
    "ticks": (lambda goal, q: (goal / STEP + 2048, np.round(q / STEP) + 2048), 'units = { q = "ticks" }'),
    "normalised": (lambda goal, q: (goal / 1.3 * 100, q / 1.3 * 100), 'units = { q = "normalised" } and calibration ='),
    "swapped": (lambda goal, q: (q, goal), "they look swapped: give the column of goals as goal"),
    "goals in degrees": (lambda goal, q: (np.degrees(goal), q), 'units = { goal = "deg" }'),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_fit_refuses_what_misleads_it_in_one_line(robot, tmp_path, capsys, wrong):
    change, cure = WRONG[wrong]
    time, goal, q = columns()
    path = written(tmp_path / "run.csv", time, *change(goal, q))
    assert main(["fit", robot, path, "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1 and cure in said[0]
    assert not (tmp_path / "out").exists()


def test_a_missing_joint_is_named_with_how_to_lock_it(robot, tmp_path, capsys):
    time, goal, q = columns()
    path = written(tmp_path / "run.csv", time, goal, q, NAMES[:2])
    assert main(["fit", robot, path, "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1 and "gripper" in said[0] and "lock gripper" in said[0]


@pytest.mark.slow
def test_a_jaw_that_does_not_reach_its_goals_is_to_be_locked(robot, tmp_path, capsys):
    time, goal, q = columns()
    q[:, 2] = np.maximum(q[:, 2], 0.3)
    path = written(tmp_path / "run.csv", time, goal, q)
    assert main(["check", robot, path]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "--lock gripper" in line]
    assert said and all("gripper: stays" in line and line.endswith("lock it: --lock gripper") for line in said)
