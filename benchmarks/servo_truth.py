"""A simulated SO-101 under position servos, fitted from its goals and readings alone: is the truth found?

    python benchmarks/servo_truth.py [seed …] [--motions 8] [--seconds 20] [--actuator NAME]    seeds 0 to 9

MuJoCo moves the arm in steps of 0.25 ms: each joint has a stiffness and a damping, Coulomb friction, friction that
grows with the load of the gear, play, and a delay. Encoders have 4096 steps a turn, and joints are read one after
another, 1.5 ms apart, into a log of 50 Hz. What such a log can tell of a delay is how long after its goal a joint is
seen to move: the servo's delay less that of its reading. A * marks a kp that is known only with the file's armature.
The robot file is looked for in the folder that DIFFNEA_DATA names.
"""

import argparse
import os
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import mujoco
import numpy as np

jax.config.update("jax_enable_x64", True)

import diffnea as dn  # noqa: E402
from diffnea import actuators  # noqa: E402

ACTUATOR = "servo+coulomb+load+play+delay"
DT, STEP = 0.02, 2.5e-4  # s, of the log and of the simulation
ENCODER, STAGGER = 2 * np.pi / 4096, 1.5e-3  # rad; s between the readings of two joints
MIDDLE, REACH = np.array([0.0, -0.3, 0.2, 0.3, 0.0]), np.array([0.8, 0.5, 0.6, 0.6, 0.9])  # rad
FASTEST = 8.0  # rad/s, of goals
SETTLE = 1.0  # s at the first goal, before the log begins


@dataclass(frozen=True)
class Truth:
    """What the servos of one seed are; everything for each joint."""

    robot: dn.Robot
    kp: np.ndarray
    kd: np.ndarray
    dry: np.ndarray
    motor: np.ndarray  # friction by the servo's torque, and by what is outside the joint
    outside: np.ndarray
    play: np.ndarray  # half its width
    delay: np.ndarray  # s

    @property
    def late(self) -> np.ndarray:
        """How long after a goal is sent its effect is read, but for the loop's own lag."""
        return self.delay - STAGGER * np.arange(len(self.delay))

    @property
    def model(self) -> dn.Model:
        """The same as a model of the package, delays as they are read."""
        parts = (
            actuators.Servo.of(self.kp, self.kd),
            actuators.Coulomb.of(self.dry),
            actuators.Load.of(self.motor, self.outside),
            actuators.Play.of(self.play),
        )
        return dn.Model(self.robot, actuators.combine(*parts, actuators.Delay.of(self.late / DT, len(self.kp))))


def drawn(robot: dn.Robot, seed: int) -> Truth:
    """Servos as those of an SO-101 came out of real logs, each a little different."""
    rng = np.random.default_rng(seed)
    kp = rng.uniform(10, 18, 5)
    lag = rng.uniform(0.03, 0.05, 5)
    return Truth(
        replace(robot, armature=rng.uniform(4e-3, 8e-3, 5)),
        kp,
        kp * lag,
        kp * rng.uniform(5e-3, 15e-3, 5),
        rng.uniform(0.1, 0.25, 5),
        rng.uniform(0.05, 0.15, 5),
        rng.uniform(2e-3, 5e-3, 5),
        rng.uniform(0.03, 0.06, 5),
    )


def goals(rng: np.random.Generator, seconds: float) -> np.ndarray:
    """Sums of sines, steps with rests between them, and ramps: a third of the time each, joints in turn of each."""
    clock = np.arange(0, seconds, DT)
    rows = len(clock)
    pace = 2 * np.pi * rng.uniform(0.1, 1.2, (4, 5))
    waves = np.sin(clock[:, None, None] * pace + rng.uniform(0, 6, (4, 5))).mean(1) * 1.4
    knots = np.arange(0, rows + 60, 60)
    points = rng.uniform(-1, 1, (len(knots), 5))
    steps = points[np.minimum(np.arange(rows) // 60, len(knots) - 1)]
    ramps = np.stack([np.interp(np.arange(rows), knots, column) for column in points.T], -1)
    kind = (np.arange(rows)[:, None] // (rows // 3 + 1) + np.arange(5)) % 3
    mixed = np.choose(kind, [waves, 0.15 * steps, ramps])
    wanted = MIDDLE + REACH * mixed
    for k in range(1, rows):
        wanted[k] = wanted[k - 1] + np.clip(wanted[k] - wanted[k - 1], -FASTEST * DT, FASTEST * DT)
    return wanted


def simulated(truth: Truth, sent: np.ndarray, name: str) -> dn.Recording:
    """The arm in MuJoCo, as its log has it."""
    with tempfile.TemporaryDirectory() as folder:
        dn.save_robot(replace(truth.robot, source=None), Path(folder) / "arm.xml")
        model = mujoco.MjModel.from_xml_path(str(Path(folder) / "arm.xml"))
    model.opt.timestep, model.opt.integrator = STEP, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT)
    model.dof_damping[:] = truth.kd
    # Dry friction in MuJoCo is a soft constraint; harder than its default, so that joints stick.
    model.dof_solref[:], model.dof_solimp[:, :3] = [2 * STEP, 1.0], [0.9999, 0.9999, 1e-3]
    data, substeps = mujoco.MjData(model), round(DT / STEP)
    data.qpos[:] = sent[0]
    reads = np.round(STAGGER * np.arange(5) / STEP).astype(int)
    late = np.round(truth.delay / STEP).astype(int)
    begin = round(SETTLE / STEP)
    seen = np.empty(sent.shape)
    for k in range(begin + len(sent) * substeps):
        row, inside = divmod(k - begin, substeps)
        if row >= 0:
            now = reads == inside
            seen[row, now] = data.qpos[now]
        goal = sent[np.maximum((k - begin - late) // substeps, 0), np.arange(5)]
        error = goal - data.qpos
        pulled = truth.kp * (np.maximum(error - truth.play, 0) + np.minimum(error + truth.play, 0))
        mujoco.mj_step1(model, data)
        gear, load = pulled - truth.kd * data.qvel, -data.qfrc_bias
        model.dof_frictionloss[:] = truth.dry + np.abs(truth.motor * gear - truth.outside * load)
        data.qfrc_applied[:] = pulled
        mujoco.mj_step(model, data)
    read = np.round(seen / ENCODER) * ENCODER
    clock = np.arange(len(sent)) * DT
    names = truth.robot.joint_names
    return dn.Recording(clock, read, sent, joint_names=names, name=name, input_kind="goal")


@dataclass(frozen=True)
class Found:
    """One seed: errors of delays in ms, of kp in shares where determined, and which intervals hold."""

    delay: np.ndarray
    kp: np.ndarray
    held: list[tuple[str, bool, float]]


def study(robot: dn.Robot, seed: int, asked: argparse.Namespace) -> Found:
    truth = drawn(robot, seed)
    rng = np.random.default_rng(1000 + seed)
    motions = [simulated(truth, goals(rng, asked.seconds), f"motion {k}") for k in range(asked.motions)]
    cpu = time.process_time()
    fit = dn.fit(replace(robot, armature=truth.robot.armature), motions, actuator=asked.actuator)
    took = time.process_time() - cpu
    late = 1e3 * (np.asarray(fit.model.actuator.delay) * DT - truth.late)
    loop = fit.model.actuator.loop
    assert loop is not None
    said = [note.subject for note in fit.notes if note.code == "servo-ratio"]
    rows = {name: fit.table[f"{name} servo stiffness kp"] for name in robot.joint_names}
    known = np.array([row.identifiable and name not in said for name, row in rows.items()])
    kp = np.asarray(loop.stiffness) / truth.kp - 1
    held = []
    for each in fit.identifiable:
        true = each.of(truth.model)
        held.append((each.formula, bool(each.lower <= true <= each.upper), (each.value - true) / max(each.std, 1e-12)))
    print(f"seed {seed}: {fit.verdict}, {took:.0f} s of processors, training error {1e3 * fit.loss:.2f} mrad")
    print("  delay off, ms   ", " ".join(f"{x:7.2f}" for x in late))
    print(
        "  kp off, %       ",
        " ".join(f"{100 * x:6.1f}{' ' if tells else '*'}" for x, tells in zip(kp, known, strict=True)),
    )
    holding = sum(ok for _, ok, _ in held)
    print(f"  intervals that hold: {holding} of {len(held)}; one number only: {', '.join(said) or '–'}", flush=True)
    for name, ok, off in held:
        if not ok:
            print(f"    {name}: off by {off:+.1f} std")
    return Found(late, kp[known], held)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", nargs="*", type=int)
    parser.add_argument("--motions", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--actuator", default=ACTUATOR)
    asked = parser.parse_args()
    data = os.environ.get("DIFFNEA_DATA")
    if not data:
        parser.error("DIFFNEA_DATA is not set; name the folder that has so101")
    robot = dn.load_robot(Path(data) / "so101" / "so101_new_calib.urdf", lock=["gripper"])
    found = [study(robot, seed, asked) for seed in asked.seeds or range(10)]
    late, kp = (np.abs(np.concatenate([getattr(each, key) for each in found])) for key in ("delay", "kp"))
    held = [row for each in found for row in each.held]
    print(f"delays off: median {np.median(late):.2f}, most {late.max():.2f} ms; within 2 ms: {np.mean(late < 2):.0%}")
    print(f"kp off where determined ({len(kp)}): median {np.median(kp):.1%}, most {kp.max(initial=0):.1%}")
    print(f"intervals that hold: {np.mean([ok for _, ok, _ in held]):.1%} of {len(held)}")
    by: dict[str, list[tuple[bool, float]]] = {}
    for name, ok, off in held:
        by.setdefault(name.split("(")[0], []).append((ok, off))
    for name, rows in by.items():
        hits, off = map(np.array, zip(*rows, strict=True))
        how = f"error in std: mean {off.mean():+.2f}, spread {off.std():.2f}"
        print(f"  {hits.mean():6.1%} of {len(hits):4d}  {how}  {name}")


if __name__ == "__main__":
    main()
