"""Fit the torques of industrial arms with `dn.fit` and score predicted torques on the part that was not fitted.

    python benchmarks/real_arms.py staubli_tx40
    python benchmarks/real_arms.py kuka_kr300

Beside it stands a weighted regression of the same torques: inertial parameters, rotors, viscous and dry friction and
offsets, by least squares without any physical bound. Positions and torques pass a zero-phase Butterworth filter of
fourth order first, at the protocol's corner. Recordings are looked for in ../shared/data, beside the checkout.
"""

import argparse
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

SHARED = Path(__file__).resolve().parents[2] / "shared"
os.environ.setdefault("DIFFNEA_DATA", str(SHARED / "data"))
jax.config.update("jax_enable_x64", True)

import diffnea as dn  # noqa: E402
from diffnea.batches import batched, inverse_dynamics, regressor  # noqa: E402
from diffnea.cli.inputs import read_robot  # noqa: E402
from diffnea.recordings import Recording, Samples, public  # noqa: E402

EDGE = 0.05  # seconds at each end, where filters and differences lean on nothing


@dataclass(frozen=True)
class Arm:
    """A data set: its corner in Hz, samples of the fit, the actuator, and motors that turn with several joints.

    A small motion tells little of torques that change with the position: then `harmonics` is 0.
    """

    corner: float
    every: int
    actuator: str
    harmonics: int = 3
    coupled: tuple[tuple[float, ...], ...] = ()


ARMS = {
    "staubli_tx40": Arm(60.0, 20, "stribeck+offset+coupling", 3, ((0, 0, 0, 0, 1, 1),)),
    "kuka_kr300": Arm(10.0, 4, "stribeck+offset", 0),
}


def samples(recording: Recording, arm: Arm) -> Samples:
    """Filtered, differentiated, and every so many of them."""
    from scipy.signal import butter, filtfilt

    dt = recording.dt
    low_pass = butter(4, 2 * arm.corner * dt)
    q, tau = (filtfilt(*low_pass, np.asarray(rows, float), axis=0) for rows in (recording.q, recording.u))
    qd = np.gradient(q, dt, axis=0)
    qdd = np.gradient(qd, dt, axis=0)
    edge = round(EDGE / dt)
    kept = slice(edge, len(q) - edge, arm.every)
    return Samples(q[kept], qd[kept], qdd[kept], tau[kept], joint_names=recording.joint_names)


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


def regression(
    robot: dn.Robot, train: Samples, test: Samples, coupled: tuple[tuple[float, ...], ...], least: float = 1e-6
) -> np.ndarray:
    """Torques of the test part by least squares on the training part, joints weighted by their torques' size.

    Directions whose singular value is below `least` of the largest are left out.
    """
    weight = 1 / np.sqrt(np.mean(train.u**2, axis=0))
    rows = (columns(robot, train, coupled) * weight[:, None]).reshape(train.u.size, -1)
    size = np.linalg.norm(rows, axis=0) + 1e-12
    found = np.linalg.lstsq(rows / size, (train.u * weight).ravel(), rcond=least)[0] / size
    return columns(robot, test, coupled) @ found


def predicted(model: dn.Model, data: Samples) -> np.ndarray:
    """The torque that the motors give: what the motion takes, and what friction and offsets take."""
    taken = inverse_dynamics(model.robot, data.q, data.qd, data.qdd)
    others = batched(_without_command, model, q=data.q, qd=data.qd)
    return np.asarray(taken) - np.asarray(others)


def _without_command(model: dn.Model, q, qd):
    return model.actuator(0 * q, q, qd)


def relative(found: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """Root mean square of the error by that of the torque, joint by joint."""
    return np.sqrt(np.mean((found - measured) ** 2, axis=0) / np.mean(measured**2, axis=0))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", choices=tuple(ARMS))
    parser.add_argument("--actuator")
    parser.add_argument("--method", default="lm")
    arguments = parser.parse_args()
    if not public.folder().is_dir():
        print(f"{public.folder()}: no such folder; nothing is scored without the recordings")
        return 0
    arm, robot = ARMS[arguments.dataset], read_robot(arguments.dataset)
    train, test = (samples(parts[0], arm) for parts in public.split(arguments.dataset))
    rows = {"regression": relative(regression(robot, train, test, ()), test.u)}
    rows["regression, 0.03"] = relative(regression(robot, train, test, (), 0.03), test.u)
    if arm.coupled:
        rows["regression, coupled"] = relative(regression(robot, train, test, arm.coupled), test.u)
    began, cpu = time.perf_counter(), time.process_time()
    name = arguments.actuator or arm.actuator
    actuator = dn.actuators.for_robot(name, robot, key=jax.random.key(0), harmonics=arm.harmonics)
    learn = ("inertia", "armature", "actuator")
    fit = dn.fit(robot, train, learn=learn, actuator=actuator, loss="torque", method=arguments.method, test=test)
    rows["this package"] = relative(predicted(fit.model, test), test.u)
    spent = f"{time.perf_counter() - began:.0f} s ({time.process_time() - cpu:.0f} s of CPU)"
    print(f"{arguments.dataset}: {name}, {len(train)} samples, {spent}, {fit.verdict.status}")
    for name, error in rows.items():
        print(f"{name:20s} {error.mean():.4f}   {' '.join(f'{each:.3f}' for each in error)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
