"""Fit the training part of a real data set with `dn.fit` and score open-loop prediction on the test part.

    python benchmarks/real_data.py quanser_cartpole
    python benchmarks/real_data.py quanser_cartpole --by-hand
    python benchmarks/real_data.py quanser_cartpole --network
    python benchmarks/real_data.py quanser_cartpole --fit out     # what `diffnea fit … --out out` has left
    python benchmarks/real_data.py quanser_qube --rotations 0 1 2 --seeds 5 --log qube.jsonl

A fit has no options but its data. With --by-hand it has those that someone who knows the machine would give, and
--actuator, --learn, --loss and the like change these.

A rotation says which third of the recordings is tested: those whose number leaves it when divided by three. With
several rotations or seeds a table has the median over seeds and the worst seed. Each fit is a line of the log, and
what stands there is not fitted again. `--blind` computes no test score, so that settings can be chosen on training
errors; `--nested` leaves out every third *training* recording in turn and scores those: what a test is expected to
say.

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
from functools import partial
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
from diffnea.identify.judge.windows import without_delay  # noqa: E402
from diffnea.models import unlimited  # noqa: E402
from diffnea.simulate.delay import delayed, weights  # noqa: E402


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


# Data sets of several recordings; of others the protocol divides the one there is.
ROTATED = ("quanser_cartpole", "quanser_qube", "dfki_double_pendulum")
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
            u = np.asarray(delayed(jnp.asarray(u), weights(late.delay, late.most)))
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
    for horizon, part in ((float(key), part) for key, part in found["horizons"].items()):
        ours = ", ".join(f"{1e3 * value:.3g}" for value in part["median"])
        lines.append(f"| {horizon:g} s | {ours} | {' | '.join(known.get(horizon, ('', '', '')))} |")
    return "\n".join(lines)


def divided(parts: list[Any], rotation: int) -> tuple[list[Any], list[Any]]:
    """Training and test part: every third is tested."""
    return [p for k, p in enumerate(parts) if k % 3 != rotation], [p for k, p in enumerate(parts) if k % 3 == rotation]


def load(protocol: Any, dataset: str, rotation: int, fold: int | None) -> tuple[list[Any], list[Any]]:
    """The recordings of a rotation; with a fold, its training part divided once more."""
    train, test = protocol.load(dataset)
    if dataset in ROTATED and not protocol.TEST_DATA:
        train, test = divided(sorted([*train, *test], key=lambda part: f"{part.group}/{part.name}"), rotation)
    return (train, test) if fold is None else divided(train, fold)


def run(arguments: argparse.Namespace, rotation: int = 1, seed: int = 0, fold: int | None = None) -> dict[str, Any]:
    """Fit, then score."""
    protocol, rig = read_protocol(), RIGS[arguments.dataset]
    robot = read_robot(rig.robot)
    train, test = load(protocol, arguments.dataset, rotation, fold)
    actuator = name = arguments.actuator or rig.actuator
    if arguments.constant_offset:
        actuator = dn.actuators.for_robot(name, robot, key=jax.random.key(0), harmonics=0)
    began, cpu = time.perf_counter(), time.process_time()
    data, kept = ([recording(part, rig, robot.joint_names) for part in parts] for parts in (train, test))
    if arguments.bandwidth:
        data = [dn.recordings.differentiate(each, arguments.bandwidth) for each in data]
    how = {"seed": seed}
    if by_hand(arguments):
        how |= {
            "learn": ("inertia", "actuator", *(rig.learn if arguments.learn is None else arguments.learn)),
            "actuator": actuator,
            "loss": arguments.loss or rig.loss,
            "method": arguments.method,
            "steps": arguments.steps,
            "robust": arguments.robust or None,
        }
    # The test part only enters the verdict; horizons and starts are chosen on the training data.
    kept = data[:1] if arguments.blind else kept
    if arguments.fit:
        fit = dn.load_fit(arguments.fit)
    elif arguments.network:
        fit = dn.fit(network(data, robot), data, test=kept)
    else:
        fit = dn.fit(robot, data, test=kept, **how)
    spent = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
    score = partial(
        protocol.score,
        predictor(fit.model, rig),
        horizons=protocol.HORIZONS[arguments.dataset],
        std=protocol.joint_std(train),
    )
    return {
        "dataset": arguments.dataset,
        "rotation": rotation,
        "seed": seed,
        "fold": fold,
        "learn": fit.config["learn"],
        "actuator": "plain network" if arguments.network else fit.config["actuator"],
        "loss": fit.config["loss"],
        **spent,
        "train": score(train),
        "test": None if arguments.blind and fold is None else score(test),
        "status": fit.verdict.status,
        "notes": [str(note) for note in fit.notes],
    }


def by_hand(arguments: argparse.Namespace) -> bool:
    """Whether a fit is told what to learn."""
    told = (arguments.actuator, arguments.loss, arguments.steps, arguments.robust, arguments.constant_offset)
    return arguments.by_hand or any(told) or arguments.learn is not None or arguments.method != "auto"


def logged(arguments: argparse.Namespace, rotation: int, seed: int, fold: int | None) -> dict[str, Any]:
    """The same fit from the log, or made and written there."""
    log = Path(arguments.log) if arguments.log else None
    lines = log.read_text().splitlines() if log is not None and log.is_file() else []
    asked = {"dataset": arguments.dataset, "rotation": rotation, "seed": seed, "fold": fold}
    for found in map(json.loads, lines):
        if asked.items() <= found.items() and (arguments.blind or found["test"] is not None):
            return found
    found = json.loads(json.dumps(run(arguments, rotation, seed, fold), default=str))
    if log is not None:
        with log.open("a") as file:
            file.write(json.dumps(found) + "\n")
    print(f"rotation {rotation}, seed {seed}{'' if fold is None else f', fold {fold}'}: "
          f"{medians(found['train'], 0.5)} fitted, {medians(found['test'], 0.5)} tested at 0.5 s; "
          f"{found['cpu_seconds']:.0f} s of CPU", flush=True)  # fmt: skip
    return found


def medians(score: dict[str, Any] | None, horizon: float) -> str:
    """In mm or mrad, joint by joint."""
    if score is None:
        return "–"
    part = {float(each): value for each, value in score["horizons"].items()}.get(horizon)
    return "–" if part is None else ", ".join(f"{1e3 * value:.3g}" for value in part["median"])


def summary(found: list[dict[str, Any]], horizon: float = 0.5) -> str:
    """One row a rotation: median over seeds, and the worst seed as a multiple of it, fitted, left out and tested."""
    lines = [f"| rotation | fitted, {horizon:g} s | worst | left out | tested | worst | CPU s |", "|---" * 7 + "|"]
    for rotation in sorted({each["rotation"] for each in found}):
        here = [each for each in found if each["rotation"] == rotation]
        whole, parts = [e for e in here if e["fold"] is None], [e for e in here if e["fold"] is not None]
        cells = [*over_seeds(whole, "train", horizon), over_seeds(parts, "test", horizon)[0]]
        cells += [*over_seeds(whole, "test", horizon), f"{np.median([e['cpu_seconds'] for e in here]):.0f}"]
        lines.append(f"| {rotation} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def over_seeds(found: list[dict[str, Any]], side: str, horizon: float) -> tuple[str, str]:
    """Median over fits, and the largest by that, joint by joint."""
    scores = [{float(h): v for h, v in each[side]["horizons"].items()} for each in found if each[side] is not None]
    errors = np.array([score[horizon]["median"] for score in scores if horizon in score])
    if not len(errors):
        return "–", "–"
    middle = np.median(errors, axis=0)
    return ", ".join(f"{1e3 * v:.3g}" for v in middle), ", ".join(f"{v:.2f}" for v in errors.max(axis=0) / middle)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", choices=tuple(RIGS))
    parser.add_argument("--by-hand", action="store_true", help="with the options of someone who knows the machine")
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
    parser.add_argument("--rotation", type=int, default=1, choices=(0, 1, 2), help="which third is tested")
    parser.add_argument("--rotations", type=int, nargs="*", choices=(0, 1, 2), help="several of them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, help="so many, from --seed on")
    parser.add_argument("--nested", action="store_true", help="fits without every third training recording, too")
    parser.add_argument("--blind", action="store_true", help="no test scores")
    parser.add_argument("--log", help="a file with one line of JSON a fit; what is there is not fitted again")
    parser.add_argument("--out", help="a file for the scores as JSON")
    arguments = parser.parse_args()
    if not PROTOCOL.is_file():
        print(f"{PROTOCOL}: no such file; nothing is scored without the protocol and its recordings")
        return 0
    rotations = arguments.rotations or [arguments.rotation]
    seeds = range(arguments.seed, arguments.seed + (arguments.seeds or 1))
    folds = (None, 0, 1, 2) if arguments.nested else (None,)
    found = [logged(arguments, r, seed, fold) for r in rotations for seed in seeds for fold in folds]
    if len(found) > 1:
        print(summary(found))
    else:
        one(found[0])
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(found if len(found) > 1 else found[0], indent=1))
    return 0


def one(result: dict[str, Any]) -> None:
    """What is said of a single fit."""
    print(f"{result['dataset']}: {result['actuator']}, {result['loss']} loss, {result['seconds']:.0f} s "
          f"({result['cpu_seconds']:.0f} s of CPU), {result['status']}")  # fmt: skip
    print("; ".join(result["notes"][-3:]))
    score = result["test"] or result["train"]
    print(table(score, RIGS[result["dataset"]]))
    print(f"diverged {score['diverged']} of {score['n_windows']}")


if __name__ == "__main__":
    sys.exit(main())
