"""Fit the torques of industrial arms with one `diffnea fit` and score the saved fit on the part that was not fitted.

    python benchmarks/real_arms.py staubli_tx40
    python benchmarks/real_arms.py kuka_kr300
    python benchmarks/real_arms.py kuka_kr300 --by-hand

The fit has no options but the files; with --by-hand those that someone who knows the arm would give. Beside it stand
regressions of the same torques: inertial parameters, rotors, viscous and dry friction and offsets, by least squares
without any physical bound, joints weighted by the size of their torques; without and with a ridge whose size is chosen
on blocks of the training part. Positions and torques pass a zero-phase Butterworth filter of fourth order first, at the
protocol's corner. Recordings are looked for in ../shared/data, beside the checkout.
"""

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

SHARED = Path(__file__).resolve().parents[2] / "shared"
os.environ.setdefault("DIFFNEA_DATA", str(SHARED / "data"))
jax.config.update("jax_enable_x64", True)

import diffnea as dn  # noqa: E402
from diffnea.batches import regressor  # noqa: E402
from diffnea.batching import batched  # noqa: E402
from diffnea.cli.inputs import read_robot  # noqa: E402
from diffnea.cli.main import main as main_of  # noqa: E402
from diffnea.identify.friction.prandtl import SEEN_REVERSAL, Slip, coordinates, ways  # noqa: E402
from diffnea.identify.problem.measurements.noise import white_noise  # noqa: E402
from diffnea.identify.problem.torque_balance import torques  # noqa: E402
from diffnea.models import inverse  # noqa: E402
from diffnea.recordings import Recording, Samples, public  # noqa: E402

BLOCKS, RIDGES = 4, (1e-5, 1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 1.0)
EDGE = 0.05  # seconds at each end, where filters and differences lean on nothing


@dataclass(frozen=True)
class Arm:
    """A data set: its corner in Hz, which samples are scored, the actuator, motors that turn with several joints."""

    corner: float
    every: int
    actuator: str
    coupled: tuple[tuple[float, ...], ...] = ()
    reduction: str = ""  # motor turns a turn of each joint, where they are published


ARMS = {
    "staubli_tx40": Arm(
        60.0, 5, "stribeck+grease+constant+coupling+ripple", ((0, 0, 0, 0, 1, 1),), "32,32,45,48,45,32"
    ),
    "kuka_kr300": Arm(10.0, 1, "stribeck+grease+constant"),
}


def low_pass(rows: np.ndarray, arm: Arm, dt: float) -> np.ndarray:
    """The protocol's filter."""
    from scipy.signal import butter, filtfilt

    return filtfilt(*butter(4, 2 * arm.corner * dt), np.asarray(rows, float), axis=0)


def filtered(recording: Recording, arm: Arm) -> Samples:
    """All samples, filtered and differentiated."""
    dt = recording.dt
    q, tau = (low_pass(rows, arm, dt) for rows in (recording.q, recording.u))
    qd = np.gradient(q, dt, axis=0)
    return Samples(q, qd, np.gradient(qd, dt, axis=0), tau, joint_names=recording.joint_names)


def scored(recording: Recording, arm: Arm) -> np.ndarray:
    """Which samples count: every so many of them, without the ends."""
    edge = round(EDGE / recording.dt)
    return np.arange(edge, len(recording.q) - edge, arm.every)


def columns(robot: dn.Robot, data: Samples, coupled: tuple[tuple[float, ...], ...]) -> np.ndarray:
    """What torques are made of, linearly: `(sample, n, columns)`."""
    n = data.num_joints
    each = np.eye(n)
    turns = np.array(coupled, float).reshape(-1, n)
    speed = data.qd @ turns.T
    parts = [
        np.asarray(regressor(robot, data.q, data.qd, data.qdd)),
        *(rows[:, :, None] * each for rows in (data.qdd, data.qd, np.sign(data.qd), np.ones_like(data.q))),
        *(rows[:, None, :] * turns.T[None] for rows in (speed, np.sign(speed), data.qdd @ turns.T)),
    ]
    return np.concatenate(parts, axis=2)


def solved(robot: dn.Robot, train: Samples, coupled: tuple[tuple[float, ...], ...], ridge: float) -> np.ndarray:
    """Least squares on columns of unit length; a ridge of 0 leaves out directions that rounding decides."""
    weight = 1 / np.sqrt(np.mean(train.u**2, axis=0))
    rows = (columns(robot, train, coupled) * weight[:, None]).reshape(train.u.size, -1)
    size = np.linalg.norm(rows, axis=0) + 1e-12
    wanted, rows = (train.u * weight).ravel(), rows / size
    if not ridge:
        return np.linalg.lstsq(rows, wanted, rcond=1e-6)[0] / size
    return np.linalg.solve(rows.T @ rows + ridge * np.eye(rows.shape[1]), rows.T @ wanted) / size


def some(data: Samples, rows: np.ndarray) -> Samples:
    arrays = (np.asarray(getattr(data, key))[rows] for key in ("q", "qd", "qdd", "u"))
    return Samples(*arrays, joint_names=data.joint_names)


def best_ridge(robot: dn.Robot, train: Samples, coupled: tuple[tuple[float, ...], ...]) -> float:
    """By blocks of the training part that are left out in turn."""
    block = np.arange(len(train)) * BLOCKS // len(train)

    def error(ridge: float) -> float:
        wrong = []
        for k in range(BLOCKS):
            seen, apart = some(train, block != k), some(train, block == k)
            found = columns(robot, apart, coupled) @ solved(robot, seen, coupled, ridge)
            wrong.append(relative(found, np.asarray(apart.u)).mean())
        return float(np.mean(wrong))

    return min(RIDGES, key=error)


def predicted(fit: dn.Fit, recording: Recording, arm: Arm) -> np.ndarray:
    """The torque that the motors give: what the motion takes, and what friction and offsets take.

    Which way friction points is told from the recorded positions. Torques are compared through a low-pass, so friction,
    which turns over at once, passes it too.
    """
    data, turns = filtered(recording, arm), coordinates(fit.model.actuator)
    q, qd, qdd = (np.asarray(rows) for rows in (data.q, data.qd, data.qdd))
    least, way = SEEN_REVERSAL * white_noise(np.asarray(recording.q) @ turns.T), None
    if fit.config["slip"]:
        slip = Slip(np.array(fit.config["slip"]), np.array(fit.config["hold"]))
        way = ways(q @ turns.T, qd @ turns.T, recording.dt, slip, least)
    taken = np.asarray(batched(inverse, fit.model, q=q, qd=qd, qdd=qdd))
    others = torques(fit.model, q, qd, qdd, 0 * q, way).left - taken
    return taken + low_pass(others, arm, recording.dt)


def relative(found: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """Root mean square of the error by that of the torque, joint by joint."""
    return np.sqrt(np.mean((found - measured) ** 2, axis=0) / np.mean(measured**2, axis=0))


def fitted(name: str, out: str, by_hand: bool) -> tuple[dn.Fit, str]:
    """What the command line learns and saves, and how long that takes."""
    began, cpu = time.perf_counter(), time.process_time()
    robot = ["fit", name, f"{name}:train", "--test", f"{name}:test", "--out", out]
    how = _by_hand(name) if by_hand else []
    if main_of([*robot, *how]) not in (0, 3):  # 3: not accepted, which is a result too
        raise SystemExit("diffnea fit failed")
    spent = f"{time.perf_counter() - began:.0f} s ({time.process_time() - cpu:.0f} s of CPU)"
    return dn.load_fit(out), f"diffnea {' '.join([*robot[:-1], 'DIR', *how])}: {spent}"


def _by_hand(name: str) -> list[str]:
    """The options that someone who knows the arm would give."""
    how = ["--measured", "--learn", "inertia", "armature", "--loss", "torque", "--method", "lm"]
    how += ["--actuator", ARMS[name].actuator]
    return [*how, "--set", f"reduction={ARMS[name].reduction}"] if ARMS[name].reduction else how


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", choices=tuple(ARMS))
    parser.add_argument("--out", help="keep the fit in this folder")
    parser.add_argument("--by-hand", action="store_true", help="with the options of someone who knows the arm")
    arguments = parser.parse_args()
    if not public.folder().is_dir():
        print(f"{public.folder()}: no such folder; nothing is scored without the recordings")
        return 0
    arm, robot = ARMS[arguments.dataset], read_robot(arguments.dataset)
    records = [parts[0] for parts in public.split(arguments.dataset)]
    train, test = (some(filtered(record, arm), scored(record, arm)) for record in records)
    rows = {}
    for words, coupled in {"": (), ", coupled": arm.coupled}.items():
        ridges = {"": 0.0, ", ridge": best_ridge(robot, train, coupled)} if not words or coupled else {}
        for more, ridge in ridges.items():
            found = columns(robot, test, coupled) @ solved(robot, train, coupled, ridge)
            rows[f"regression{words}{more}"] = relative(found, np.asarray(test.u))
    with tempfile.TemporaryDirectory() as folder:
        fit, said = fitted(arguments.dataset, arguments.out or folder, arguments.by_hand)
    ours = predicted(fit, records[1], arm)[scored(records[1], arm)]
    rows["this package"] = relative(ours, np.asarray(test.u))
    print(f"\n{said}")
    for name, error in rows.items():
        print(f"{name:28s} {error.mean():.4f}   {' '.join(f'{each:.3f}' for each in error)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
