"""Fit the training part of a real data set with `dn.fit` and score open-loop prediction on the test part.

    python benchmarks/real_data.py quanser_cartpole
    python benchmarks/real_data.py multiarm_double --loss trajectory
    python benchmarks/real_data.py quanser_cartpole --network
    python benchmarks/real_data.py quanser_cartpole --fit out     # what `diffnea fit … --out out` has left

The scoring protocol and the recordings are looked for beside the checkout, in ../shared/scoring/protocol.py and
../shared/data; where they are absent, nothing is scored and the reason is printed.
"""

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

SHARED = Path(__file__).resolve().parents[2] / "shared"
PROTOCOL = Path(os.environ.get("DIFFNEA_PROTOCOL", SHARED / "scoring" / "protocol.py"))
os.environ.setdefault("DIFFNEA_DATA", str(SHARED / "data"))
jax.config.update("jax_enable_x64", True)

import diffnea as dn  # noqa: E402
from diffnea.cli.inputs import read_robot  # noqa: E402
from diffnea.identify.judge.score import without_delay  # noqa: E402
from diffnea.models import unlimited  # noqa: E402
from diffnea.rollout.delay import delayed  # noqa: E402


@dataclass(frozen=True)
class Rig:
    """How a data set meets its robot: the file, what is learned, and angles to and from joint coordinates."""

    robot: str
    actuator: str
    learn: tuple[str, ...] = ()  # beside inertia and actuator
    loss: str = "trajectory"
    joints: Callable[[np.ndarray], np.ndarray] = lambda q: q
    measured: Callable[[np.ndarray], np.ndarray] = lambda q: q
    # Medians to compare with, one row a horizon: data sheet, expert's hand-made model, to be reached.
    known: tuple[tuple[float, str, str, str], ...] = ()


def relative(q: np.ndarray) -> np.ndarray:
    """Absolute angles with π hanging → the first from hanging, the second from the first."""
    return np.concatenate([q[..., :1] - np.pi, np.diff(q, axis=-1)], axis=-1)


def absolute(q: np.ndarray) -> np.ndarray:
    """The inverse of `relative`."""
    return np.cumsum(q, axis=-1) + np.pi


RIGS = {
    "quanser_cartpole": Rig(
        "cartpole",
        "motor+stribeck+offset+delay",
        ("calibration",),
        known=(
            (0.5, "14.6, 72", "0.9, 9.8", "0.9, 9.0"),
            (1.0, "17.4, 132", "1.6, 18.1", "1.5, 16"),
            (2.0, "21.2, 245", "2.5, 33", "2.3, 30"),
        ),
    ),
    "quanser_qube": Rig(
        "furuta",
        "motor+stribeck+offset+delay",
        known=(
            (0.5, "184, 136", "18.4, 13.5", "16, 12"),
            (1.0, "319, 355", "44.7, 25.5", "38, 22"),
            (2.0, "506, 609", "77, 52.5", "65, 45"),
        ),
    ),
    "dfki_double_pendulum": Rig(
        "dfki_double_pendulum",
        "gain+stribeck+constant+delay",
        known=((0.5, "37.5, 60.7", "24.2, 32.7", "21, 29"), (1.0, "70, 119", "58, 69", "48, 58")),
    ),
    "multiarm_double": Rig(
        "multiarm_double_pendulum",
        "stribeck+coupling",
        ("kinematics",),
        "acceleration",
        relative,
        absolute,
        known=(
            (1.0, "–", "1.3, 1.7", "1.0, 1.4"),
            (2.0, "–", "1.7, 2.5", "1.4, 2.0"),
            (5.0, "–", "3.2, 5.2", "2.6, 4.2"),
        ),
    ),
}


def read_protocol() -> Any:
    """The scoring protocol as a module."""
    specification = importlib.util.spec_from_file_location("protocol", PROTOCOL)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["protocol"] = module
    specification.loader.exec_module(module)
    return module


def recording(part: Any, rig: Rig, names: tuple[str, ...]) -> dn.Recording:
    """A part of the protocol's data as a recording; inputs beyond the joints' are other channels, and left out."""
    n = part.q.shape[1]
    u = np.zeros((len(part.q), n))
    u[:, : min(n, part.u.shape[1])] = part.u[:, :n]
    stamps = np.arange(len(u)) * part.dt
    return dn.Recording(time=stamps, q=rig.joints(part.q), u=u, joint_names=names, name=f"{part.group}/{part.name}")


def predictor(model: Any, rig: Rig) -> Callable[..., np.ndarray]:
    """The model as the protocol asks for it: positions of windows from smoothed states, commands as they came."""
    prompt, late = without_delay(model)
    n = prompt.num_joints

    def predict(part: Any, starts: np.ndarray, steps: int, q0=None, v0=None) -> np.ndarray:
        u = np.zeros((len(part.q), n))
        u[:, : min(n, part.u.shape[1])] = part.u[:, :n]
        if late is not None:
            u = np.asarray(delayed(jnp.asarray(u), *late))
        rows = np.clip(starts[:, None] + np.arange(steps + 1), 0, len(u) - 1)
        q = rig.joints(part.qs[starts] if q0 is None else q0)
        speed = part.vs[starts] if v0 is None else v0
        # Angles map by differences and a constant, velocities by the same differences.
        qd = rig.joints(speed) - rig.joints(np.zeros_like(speed))
        run = dn.rollout(prompt, q, qd, u[rows], part.dt)
        return rig.measured(np.asarray(run.q))

    return predict


def network(data: list[dn.Recording], robot: dn.Robot) -> dn.FeedForward:
    """A plain network with the statistics of these recordings, for a fit without a robot."""
    moved = [dn.recordings.differentiate(each) for each in data]
    q, qd, u, qdd = (np.concatenate([getattr(each, key) for each in moved]) for key in ("q", "qd", "u", "qdd"))
    return dn.FeedForward.for_samples(q, qd, u, qdd, jax.random.key(0), unlimited(robot))


def table(found: dict[str, Any], rig: Rig) -> str:
    """Medians in mm and mrad beside the figures to compare with."""
    known = {row[0]: row[1:] for row in rig.known}
    lines = ["| at | this fit | data sheet | expert | to be reached |", "|---|---|---|---|---|"]
    for horizon, part in found["horizons"].items():
        ours = ", ".join(f"{1e3 * value:.3g}" for value in part["median"])
        lines.append(f"| {horizon:g} s | {ours} | {' | '.join(known.get(horizon, ('', '', '')))} |")
    return "\n".join(lines)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Fit, then score."""
    protocol, rig = read_protocol(), RIGS[arguments.dataset]
    robot = read_robot(rig.robot)
    train, test = protocol.load(arguments.dataset)
    name = arguments.actuator or rig.actuator
    actuator = name
    if arguments.constant_offset:
        actuator = dn.actuators.for_robot(name, robot, key=jax.random.key(0), harmonics=0)
    began, cpu = time.perf_counter(), time.process_time()
    data, kept = ([recording(part, rig, robot.joint_names) for part in parts] for parts in (train, test))
    if arguments.bandwidth:
        data = [dn.recordings.differentiate(each, arguments.bandwidth) for each in data]
    learn = ("inertia", "actuator", *(rig.learn if arguments.learn is None else arguments.learn))
    arguments.loss = arguments.loss or rig.loss
    how = {
        "loss": arguments.loss,
        "method": arguments.method,
        "steps": arguments.steps,
        "robust": arguments.robust or None,
    }
    # The test part only enters the verdict; horizons and starts are chosen on a part of the training data.
    if arguments.fit:
        fit = dn.load_fit(arguments.fit)
        name = arguments.loss = f"fit in {arguments.fit}"
    elif arguments.network:
        name, arguments.loss = "plain network", "acceleration"
        fit = dn.fit(network(data, robot), data, test=kept)
    else:
        fit = dn.fit(robot, data, learn=learn, actuator=actuator, test=kept, **how)
    spent = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
    std = protocol.joint_std(train)
    scored = protocol.score(predictor(fit.model, rig), test, protocol.HORIZONS[arguments.dataset], std)
    return {
        "dataset": arguments.dataset,
        "actuator": name,
        "loss": arguments.loss,
        **spent,
        "score": scored,
        "fit": fit,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", choices=tuple(RIGS))
    parser.add_argument("--actuator")
    parser.add_argument("--fit", help="a folder that diffnea fit has written: its model is scored, nothing is fitted")
    parser.add_argument("--network", action="store_true", help="a plain network instead of the robot")
    parser.add_argument("--learn", nargs="*", help="beside inertia and actuator; by default what the rig needs")
    parser.add_argument("--loss", choices=("acceleration", "torque", "trajectory"))
    parser.add_argument("--constant-offset", action="store_true", help="a part offset without harmonics")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--steps", type=int, help="of the search before the trajectory loss; 0 with lm: from the file")
    parser.add_argument("--bandwidth", type=float, help="of the smoother, Hz; by default it is chosen from the data")
    parser.add_argument("--robust", action="store_true")
    parser.add_argument("--out", help="a file for the scores as JSON")
    arguments = parser.parse_args()
    if not PROTOCOL.is_file():
        print(f"{PROTOCOL}: no such file; nothing is scored without the protocol and its recordings")
        return 0
    result = run(arguments)
    fit = result.pop("fit")
    print(f"{result['dataset']}: {result['actuator']}, {result['loss']} loss, {result['seconds']:.0f} s "
          f"({result['cpu_seconds']:.0f} s of CPU), {fit.verdict.status}")  # fmt: skip
    print("; ".join(fit.notes[-3:]))
    print(table(result["score"], RIGS[arguments.dataset]))
    print(f"diverged {result['score']['diverged']} of {result['score']['n_windows']}")
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(result, indent=1, default=str))
    return 0


if __name__ == "__main__":
    sys.exit(main())
