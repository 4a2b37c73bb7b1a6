"""How often 95 % intervals of the trajectory loss hold the truth, by the length of its windows.

    python -m benchmarks.window_lengths [--families furuta cartpole] [--robots 16] [--noise lo] [--friction viscous]

Logs are of the outside simulator, one of 16 s a robot, whose file is 10 % off. A fit takes windows of several lengths
together; here those of every length by itself and all together are fitted from where the acceleration loss has ended,
so that only the length differs.
Curves of dry friction are left out: their intervals are profiles of the torque equations, not of windows.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import diffnea as dn
from benchmarks.outside.coverage import LEARN
from benchmarks.outside.families import FAMILIES
from benchmarks.outside.fitting import fit_with, kind_of, load, recording, truth_like
from benchmarks.outside.robots import nominal
from benchmarks.outside.simulate import NOISE, Experiment, machine_of, simulate
from diffnea.identify.determine.analyse import analyse
from diffnea.identify.options import TrajectoryOptions
from diffnea.identify.precision import double_precision
from diffnea.identify.problem.measurements.tracks import split, spread_of
from diffnea.identify.problem.unknowns import unknowns
from diffnea.identify.trajectory.stages import Fitter

OFF = 0.1
FIRST, RUNS = 300, 9000  # seeds of robots and of motions
CURVES = ("static", "kinetic", "Stribeck velocity", "viscous")


def experiment(family: str, number: int, noise: str, friction: str) -> Experiment:
    """One robot's log."""
    return Experiment(family, FIRST + number, RUNS + 1000 * number, friction, noise)


def fitted(log: Experiment, lengths: list[float], number: int) -> Iterator[dict[str, Any]]:
    """The intervals of every length beside the truth."""
    machine, dry = machine_of(log), log.friction == "dry"
    given = load(nominal(machine, OFF, number, rotors=OFF))
    read = recording(simulate(log), machine)
    actuator = "stribeck" if dry else "viscous"
    warm = fit_with(given, [read], actuator=actuator, loss="acceleration", learn=LEARN)
    assert isinstance(warm.model, dn.Model)
    truth = truth_like(warm.model, log)
    with double_precision(), np.errstate(all="ignore"):
        free = unknowns(warm.robot, LEARN, warm.model.actuator, jax.random.key(0))
        tracks = split(read, read, given.joint_names, given.num_joints, 0).fitted
        fitter = Fitter(free, spread_of(tracks), tracks, np.asarray(free.start), TrajectoryOptions())
        for taken in ways(lengths):
            stage = fitter.all(taken, np.asarray(free.start))
            if stage is None:
                continue
            for each in analyse(stage.linearised(LEARN)).combinations:
                kind = kind_of(each.kind, each.formula)
                if not (dry and kind in CURVES):
                    true = each.of(truth)
                    held = bool(each.lower <= true <= each.upper)
                    score = (each.value - true) / each.std
                    yield {"length": name(taken), "windows": stage.alone, "kind": kind, "held": held, "score": score}


def ways(lengths: list[float]) -> list[tuple[float, ...]]:
    """Each length by itself, and all of them together."""
    each = [(length,) for length in lengths]
    return each if len(lengths) < 2 else [*each, tuple(sorted(lengths))]


def name(lengths: tuple[float, ...]) -> str:
    """Of a column."""
    return f"{lengths[0]:g} s" if len(lengths) == 1 else "together"


def table(found: list[dict[str, Any]], lengths: list[float]) -> str:
    """By kind and length: coverage in per cent, of how many, and the RMS of errors in standard deviations."""
    kinds, columns = ["all", *sorted({each["kind"] for each in found})], list(map(name, ways(lengths)))
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (1 + len(columns)) + "|"]
    for kind in kinds:
        cells = []
        for length in columns:
            rows = [each for each in found if each["length"] == length and kind in ("all", each["kind"])]
            share = 100 * np.mean([each["held"] for each in rows]) if rows else np.nan
            size = np.sqrt(np.mean([each["score"] ** 2 for each in rows])) if rows else np.nan
            cells.append(f"{share:.1f} % of {len(rows)}; {size:.2f} σ")
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES), default=["furuta", "cartpole"])
    parser.add_argument("--robots", type=int, default=16)
    parser.add_argument("--noise", choices=list(NOISE), default="lo")
    parser.add_argument("--friction", choices=("viscous", "dry"), default="viscous")
    parser.add_argument("--lengths", nargs="+", type=float, default=[0.5, 1.0, 2.0, 4.0])
    parser.add_argument("--out", type=Path, help="one line of JSON an interval")
    asked = parser.parse_args()
    found = []
    for family in asked.families:
        for number in range(asked.robots):
            here = fitted(experiment(family, number, asked.noise, asked.friction), asked.lengths, number)
            rows = [{"family": family, "robot": number, **each} for each in here]
            found += rows
            print(f"{family} {number}: {sum(each['held'] for each in rows)} of {len(rows)} hold", flush=True)
            if asked.out:
                with asked.out.open("a") as file:
                    file.writelines(json.dumps(each) + "\n" for each in rows)
    print(table(found, asked.lengths))


if __name__ == "__main__":
    main()
