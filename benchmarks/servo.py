"""Servo robots from goals alone: fit and score of public logs, whole motions predicted from goals and the first pose.

    python benchmarks/servo.py so101 [rotation …]    33 motions of an SO-101; every third is predicted
    python benchmarks/servo.py wam [run …]           a Barrett WAM: 8 s of a run are fitted, the rest predicted

The data are looked for in the folder that DIFFNEA_DATA names. `--actuator` chooses the model, "auto" included.
"""

import argparse
import os
import time
from pathlib import Path

import jax
import numpy as np

import diffnea as dn

SO101, WAM = "servo+stribeck+load+delay", "servo+stribeck+load+lead+delay"
FITTED = 8.0  # seconds of a run of the WAM


def recording(path: Path, joints: int, names: tuple[str, ...]) -> dn.Recording:
    """A log with goals; the WAM's count from the pose that it began in."""
    log = np.load(path)
    q, goal = (log[key][:, :joints].astype(float) for key in ("q", "goal"))
    goal = goal + q[0] - goal[0] if "goal_qd" in log else goal
    return dn.Recording(log["time"], q, goal, joint_names=names, name=path.stem, input_kind="goal")


def predicted(model: dn.Model, motion: dn.Recording) -> np.ndarray:
    """Positions from goals and the first pose alone."""
    return np.asarray(dn.rollout(model, motion.q[0], np.zeros(motion.num_joints), motion.u, motion.dt).q)


def errors(model: dn.Model, motions: list[dn.Recording]) -> np.ndarray:
    """RMS errors in mrad, motions by joints."""
    return 1e3 * np.array([np.sqrt(np.mean((predicted(model, m) - m.q) ** 2, axis=0)) for m in motions])


def fitted(robot: dn.Robot, train: list[dn.Recording], test: list[dn.Recording], actuator: str) -> dn.Fit:
    wall, cpu = time.perf_counter(), time.process_time()
    fit = dn.fit(robot, train, actuator=actuator, test=test)
    print(f"  {fit.verdict}, {time.perf_counter() - wall:.0f} s, {time.process_time() - cpu:.0f} s of processors")
    for note in fit.notes:
        if note.code.startswith(("servo", "chosen")):
            print(f"  {note}")
    return fit


def row(label: str, values: np.ndarray) -> None:
    print(f"  {label:24}" + "".join(f"{value:7.2f}" for value in values) + f"{values.mean():9.2f}")


def so101(folder: Path, rotations: list[int], actuator: str) -> None:
    robot = dn.load_robot(folder / "so101_new_calib.urdf", lock=["gripper"])
    motions = [recording(path, 5, robot.joint_names) for path in sorted(folder.glob("*.npz"))]
    pooled = []
    for rotation in rotations:
        train, test = [m for k, m in enumerate(motions) if k % 3 != rotation], motions[rotation::3]
        print(f"so101, rotation {rotation}, {actuator}: mrad by joint, and their mean")
        fit = fitted(robot, train, test, actuator)
        found = errors(fit.model, test)
        row("median over motions", np.median(found, axis=0))
        row("mean over motions", found.mean(axis=0))
        pooled.append(found)
    every = np.concatenate(pooled)
    row(f"median of {len(every)}", np.median(every, axis=0))
    row(f"mean of {len(every)}", every.mean(axis=0))


def wam(folder: Path, runs: list[int], actuator: str) -> None:
    robot = dn.load_robot(folder / "wam_7dof_base.xml")
    paths = sorted(folder.glob("*.npz"))
    for run in runs:
        whole = recording(paths[run], 7, robot.joint_names)
        train = [whole.between(whole.time[0], whole.time[0] + FITTED)]
        print(f"wam, {whole.name}, {actuator}: mrad by joint after {FITTED:g} s, and their mean")
        fit = fitted(robot, train, [whole], actuator)
        later = whole.time >= whole.time[0] + FITTED
        row("error", 1e3 * np.sqrt(np.mean((predicted(fit.model, whole) - whole.q)[later] ** 2, axis=0)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=["so101", "wam"])
    parser.add_argument("parts", nargs="*", type=int, help="rotations of the split, or runs")
    parser.add_argument("--actuator")
    asked = parser.parse_args()
    data = os.environ.get("DIFFNEA_DATA")
    if not data:
        parser.error("DIFFNEA_DATA is not set; name the folder that has so101 and barrett_wam")
    jax.config.update("jax_enable_x64", True)
    if asked.which == "so101":
        so101(Path(data) / "so101", asked.parts or [0, 1, 2], asked.actuator or SO101)
    else:
        wam(Path(data) / "barrett_wam", asked.parts or [0], asked.actuator or WAM)


if __name__ == "__main__":
    main()
