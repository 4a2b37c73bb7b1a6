"""Servo robots from goals alone: fit and score of public logs, whole motions predicted from goals and the first pose.

    python benchmarks/servo.py so101 [rotation …]    33 motions of an SO-101; every third is predicted
    python benchmarks/servo.py wam [run …]           a Barrett WAM: 8 s of a run are fitted, the rest predicted
    python benchmarks/servo.py pendulum [rotation …] a Dynamixel with a load, 11 runs at gains of 100 to 800; every
                                                     third is predicted 1 s ahead, beside motor+stribeck of voltages
    python benchmarks/servo.py rollout               the SO-101 under its servos, beside MuJoCo's C roll-outs

The data are looked for in the folder that DIFFNEA_DATA names. `--actuator` chooses the model, "auto" included.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from mujoco import rollout
from scipy.signal import savgol_filter

import diffnea as dn
from diffnea import actuators
from diffnea.cli.inputs import read_robot
from diffnea.identify.judge.windows import without_delay
from diffnea.simulate.delay import delayed, weights

SO101, WAM = "servo+coulomb+load+delay+profile", "servo+coulomb+constant+lead+differential+delay"
SAMPLE, INNER = 0.02, 5  # seconds between samples, and steps in each
FITTED = 8.0  # seconds of a run of the WAM
WRITTEN_STEP = 1e-3  # s, of MuJoCo's run of a written file
# Windows of the pendulum: how long, from where and how often they begin, and what smooths their first state, all in s.
AHEAD, FIRST, STRIDE, SMOOTHED = 1.0, 0.1, 0.25, 0.05


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


def fitted(
    robot: dn.Robot, train: list[dn.Recording], test: list[dn.Recording], actuator: str, loss: str = "auto"
) -> dn.Fit:
    wall, cpu = time.perf_counter(), time.process_time()
    fit = dn.fit(robot, train, actuator=actuator, test=test, loss=loss)
    print(f"  {fit.verdict}, {time.perf_counter() - wall:.0f} s, {time.process_time() - cpu:.0f} s of processors")
    for note in fit.notes:
        if note.code.startswith(("servo", "chosen", "told")):
            print(f"  {note}")
    return fit


def row(label: str, values: np.ndarray) -> None:
    print(f"  {label:24}" + "".join(f"{value:7.2f}" for value in values) + f"{values.mean():9.2f}")


def by_mujoco(path: Path, motions: list[dn.Recording]) -> np.ndarray:
    """The same errors of a written file, run by MuJoCo in steps of a millisecond."""
    model = mujoco.MjModel.from_xml_path(str(path))
    model.opt.timestep, model.opt.integrator = WRITTEN_STEP, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    return 1e3 * np.array([np.sqrt(np.mean((_moved(model, m) - m.q) ** 2, axis=0)) for m in motions])


def _moved(model: mujoco.MjModel, motion: dn.Recording) -> np.ndarray:
    names = motion.joint_names or ()
    places = [model.joint(name).qposadr[0] for name in names]
    speeds = [model.joint(name).dofadr[0] for name in names]
    driven = [int(np.flatnonzero(model.actuator_trnid[:, 0] == model.joint(name).id)[0]) for name in names]
    data, clock, seen = mujoco.MjData(model), [], []
    # Goals under way are zeros at first: the first one is held until all of them have arrived.
    waiting = round(0.2 / WRITTEN_STEP)
    for k in range(-waiting, round((motion.time[-1] - motion.time[0]) / WRITTEN_STEP) + 1):
        now = motion.time[0] + max(k, 0) * WRITTEN_STEP
        row = int(np.searchsorted(motion.time, now + 1e-9, side="right")) - 1
        if k <= 0:
            data.qpos[places], data.qvel[speeds] = motion.q[0], 0.0
        if k >= 0:
            clock.append(now)
            seen.append(data.qpos[places])
        data.ctrl[driven] = motion.u[row]
        mujoco.mj_step(model, data)
    return np.stack([np.interp(motion.time, clock, column) for column in np.array(seen).T], axis=-1)


def so101(folder: Path, rotations: list[int], actuator: str, written: bool = False) -> None:
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
        if written:
            with tempfile.TemporaryDirectory() as out:
                fit.save(out)
                theirs = by_mujoco(Path(out) / "identified.xml", test)
            row("written, by MuJoCo", np.median(theirs, axis=0))
            print(f"  {np.median(theirs, axis=0).mean() / np.median(found, axis=0).mean():.2f} times the fit's")
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


def windows(model: dn.Model, run: dn.Recording) -> tuple[np.ndarray, np.ndarray]:
    """RMS errors in mrad of every window of a run, from smoothed states, and whether torque was on throughout."""
    found, powered = [], []
    prompt, late = without_delay(model)
    servo = isinstance(prompt, dn.Model) and prompt.actuator.loop is not None
    for piece in dn.recordings.regular(run):
        dt, size = piece.dt, max(round(SMOOTHED / piece.dt) | 1, 5)
        q, qd = (savgol_filter(piece.q, size, 3, deriv=k, delta=dt, axis=0, mode="interp") for k in (0, 1))
        u = piece.u if late is None else np.asarray(delayed(jnp.asarray(piece.u), weights(late.delay, late.most)))
        steps = round(AHEAD / dt)
        starts = np.arange(round(FIRST / dt), len(q) - steps, round(STRIDE / dt))
        rows = starts[:, None] + np.arange(steps + 1)
        gain = piece.gain[rows] if piece.gain is not None and servo else None
        came = np.asarray(dn.rollout(prompt, q[starts], qd[starts], u[rows], dt, gain=gain).q)
        found.append(1e3 * np.sqrt(np.mean((came - piece.q[rows])[:, 1:] ** 2, axis=(1, 2))))
        powered.append(np.ones(len(rows), bool) if piece.gain is None else (piece.gain[rows] > 0).all(axis=(1, 2)))
    return np.concatenate(found), np.concatenate(powered)


def pendulum(folder: Path, rotations: list[int], actuator: str) -> None:
    robot = read_robot("servo_pendulum")
    paths = sorted(folder.glob("*.json.gz"))
    kinds = {actuator: "goal", "motor+stribeck": "command"}
    for rotation in rotations:
        scores = {}
        print(
            f"pendulum, rotation {rotation}: mrad {AHEAD:g} s ahead, median over windows, and of those with torque on"
        )
        on: np.ndarray | None = None
        for name, kind in kinds.items():
            names = {"input": kind, "names": list(robot.joint_names)}
            runs = [dn.load_recording(path, robot, names) for path in paths]
            train, test = [run for k, run in enumerate(runs) if k % 3 != rotation], runs[rotation::3]
            # Of torques, a motor's constant and masses would be known only together.
            fit = fitted(robot, train, test, name, "auto" if kind == "goal" else "trajectory")
            each = [windows(fit.model, run) for run in test]
            errors = np.concatenate([found for found, _ in each])
            on = np.concatenate([powered for _, powered in each]) if on is None else on
            scores[name] = np.median(errors)
            print(
                f"  {name:32}{np.median(errors):8.1f}{np.median(errors[on]):8.1f}   {len(errors)}, {on.sum()} windows"
            )
            for run, (found, _) in zip(test, each, strict=True):
                print(f"    {run.name or '':30}{np.median(found):8.1f}")
        ours, theirs = scores.values()
        print(f"  {ours / theirs:.2f} of motor+stribeck's")


def in_mujoco(robot: dn.Robot, model: dn.Model) -> mujoco.MjModel:
    """The same robot and position servos, with as many steps a sample."""
    with tempfile.TemporaryDirectory() as folder:
        dn.save_robot(replace(robot, source=None), Path(folder) / "robot.xml")  # without the jaw, which is locked
        spec = mujoco.MjSpec.from_file(str(Path(folder) / "robot.xml"))
    loop = model.actuator.loop
    assert loop is not None
    for name, kp, kd in zip(robot.joint_names, loop.stiffness.tolist(), loop.damping.tolist(), strict=True):
        spec.actuator(name).set_to_position(kp=kp, kv=kd)
        spec.joint(name).frictionloss = 0.1
    made = spec.compile()
    made.opt.timestep, made.opt.integrator = SAMPLE / INNER, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    made.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    return made


def rollouts(folder: Path) -> None:
    """Samples of 20 ms a second of one processor, with five inner steps each; goals are sines."""
    robot = dn.load_robot(folder / "so101_new_calib.urdf", lock=["gripper"])
    servo = actuators.Servo.of(np.full(5, 15.0), np.full(5, 0.7), steps=INNER)
    model = dn.Model(robot, actuators.combine(servo, actuators.Coulomb.of(np.full(5, 0.1))))
    count, rows = 256, 1000
    goals = 0.5 * np.sin(np.arange(rows)[:, None] * SAMPLE + np.linspace(0, 6, count)[:, None, None] + np.arange(5))
    start = goals[:, 0]
    found = {}
    for dtype in (np.float64, np.float32):
        arrays = [jnp.asarray(each, dtype) for each in (start, np.zeros_like(start), goals)]
        run = partial(dn.rollout, model, *arrays, SAMPLE)
        found[f"diffnea, {np.dtype(dtype).name}"] = _rate(lambda run=run: run().q.block_until_ready(), count * rows)
    theirs = in_mujoco(robot, model)
    data, held = mujoco.MjData(theirs), np.repeat(goals[:8], INNER, axis=1)
    state = np.zeros((8, mujoco.mj_stateSize(theirs, mujoco.mjtState.mjSTATE_FULLPHYSICS)))
    state[:, 1:6] = start[:8]
    found["mujoco.rollout, float64"] = _rate(lambda: rollout.rollout(theirs, data, state, held), 8 * rows)
    for name, rate in found.items():
        print(f"{name:26}{rate:12.0f} samples a second, {rate / found['mujoco.rollout, float64']:6.1f} × MuJoCo")


def _rate(run: Callable[[], object], samples: int) -> float:
    """Samples a second of processor time, the best of five."""
    run()
    times = []
    for _ in range(5):
        begun = time.process_time()
        run()
        times.append(time.process_time() - begun)
    return samples / min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=["so101", "wam", "pendulum", "rollout"])
    parser.add_argument("parts", nargs="*", type=int, help="rotations of the split, or runs")
    parser.add_argument("--actuator")
    parser.add_argument("--written", action="store_true", help="of the SO-101, also MuJoCo's run of the written file")
    asked = parser.parse_args()
    data = os.environ.get("DIFFNEA_DATA")
    if not data:
        parser.error("DIFFNEA_DATA is not set; name the folder that has so101 and barrett_wam")
    jax.config.update("jax_enable_x64", True)
    if asked.which == "so101":
        so101(Path(data) / "so101", asked.parts or [0, 1, 2], asked.actuator or SO101, asked.written)
    elif asked.which == "pendulum":
        pendulum(Path(data) / "servo_pendulum_bam", asked.parts or [1], asked.actuator or "auto")
    elif asked.which == "rollout":
        rollouts(Path(data) / "so101")
    else:
        wam(Path(data) / "barrett_wam", asked.parts or [0], asked.actuator or WAM)


if __name__ == "__main__":
    main()
