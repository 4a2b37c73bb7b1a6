"""How much fits move when each option of identification is halved and doubled, on logs of an outside simulator.

    python -m benchmarks.outside.sensitivity --out runs/sensitivity.jsonl
    python -m benchmarks.outside.sensitivity --out runs/sensitivity.jsonl --table

Three fits: torques of a planar arm with dry friction, trajectories of a cart-pole, and both chosen automatically on a
robot of three joints. Of each: the error of predictions of fresh motion, the mean of the intervals' widths in the
logarithm, and how far estimates moved in standard deviations (half widths by 1.96), all beside the fit as it is.
"""

import argparse
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.outside.fitting import fit_with, load, recording, rollout_error
from benchmarks.outside.records import chosen, load_records, run_once
from benchmarks.outside.robots import nominal
from benchmarks.outside.simulate import Experiment, machine_of, simulate
from diffnea.identify.options import Options

PLANS: dict[str, tuple[Experiment, dict[str, Any]]] = {
    "torque": (Experiment("planar2", 900, 1), {"actuator": "stribeck", "loss": "torque"}),
    "trajectory": (Experiment("cartpole", 900, 1), {"actuator": "stribeck", "loss": "trajectory"}),
    "auto": (Experiment("rpr", 900, 1, friction="viscous"), {}),
}
OFF, FRESH = 0.2, 50
# Probabilities and shares stay below 1; an exact half or double of a confidence means nothing, so its tail is changed.
TAILS = ("confidence", "better", "promising", "table", "clear_table")


def changes() -> Iterator[tuple[str, Options]]:
    """Every option halved and doubled, by name; the first is none."""
    usual = Options()
    yield "as it is", usual
    for room in fields(usual):
        options = getattr(usual, room.name)
        for each in fields(options):
            for factor in (0.5, 2.0):
                value = _scaled(getattr(options, each.name), factor, each.name)
                changed = replace(usual, **{room.name: replace(options, **{each.name: value})})
                yield f"{room.name}.{each.name} × {factor:g}", changed


def _scaled(value: Any, factor: float, name: str) -> Any:
    if isinstance(value, tuple):
        return tuple(_scaled(each, factor, name) for each in value)
    if name in TAILS:
        return 1 - factor * (1 - value)
    return max(1, round(factor * value)) if isinstance(value, int) else factor * value


def run(plan: str, options: Options) -> dict[str, Any]:
    """One fit, and what it says."""
    experiment, more = PLANS[plan]
    machine = machine_of(experiment)
    robot = load(nominal(machine, OFF, 1, rotors=OFF))
    fit = fit_with(robot, [recording(simulate(experiment), machine)], options=options, **more)
    fresh = simulate(replace(experiment, run=FRESH))
    numbers = {n.formula: (n.value, n.lower, n.upper) for n in fit.identifiable}
    return {
        "verdict": str.__str__(fit.verdict),
        "error": None,
        "fresh": rollout_error(fit.model, fresh, experiment.rate),
        "numbers": numbers,
    }


def moved(record: dict[str, Any], usual: dict[str, Any]) -> tuple[float, float, float]:
    """Fresh error by that as it is; widths likewise; largest change of an estimate in standard deviations."""
    both = [(record["numbers"][k], usual["numbers"][k]) for k in usual["numbers"] if k in record["numbers"]]
    both = [(a, b) for a, b in both if all(isinstance(x, float | int) and np.isfinite(x) for x in (*a, *b))]
    widths = [(a[2] - a[1]) / (b[2] - b[1]) for a, b in both if b[2] > b[1] and a[2] > a[1]]
    steps = [abs(a[0] - b[0]) / ((b[2] - b[1]) / 3.92) for a, b in both if b[2] > b[1]]
    wider = float(np.exp(np.mean(np.log(widths)))) if widths else float("nan")
    return record["fresh"] / usual["fresh"], wider, max(steps, default=float("nan"))


def table(records: dict[str, dict[str, Any]]) -> str:
    """One row an option and factor: what moved in each plan; a verdict that changed is named."""
    lines = [f"{'':38}" + "".join(f"{plan:>28}" for plan in PLANS), f"{'':38}" + "   error   widths   estimate" * 3]
    for name, _ in changes():
        cells = []
        for plan in PLANS:
            record, usual = records.get(f"{plan}/{name}"), records.get(f"{plan}/as it is")
            if record is None or usual is None or record["error"] or usual["error"]:
                cells.append(f"{'–' if record is None else 'error':>28}")
                continue
            error, wider, step = moved(record, usual)
            said = "" if record["verdict"] == usual["verdict"] else f" {record['verdict']}"
            cells.append(f"{error:10.3f}{wider:9.3f}{step:9.2f}{said}")
        lines.append(f"{name:38}" + "".join(cells))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/sensitivity.jsonl"))
    parser.add_argument("--only", nargs="+", help="words, of which a record's key has one, as torque/ or solve.")
    parser.add_argument("--table", action="store_true", help="only print what the file has")
    given = parser.parse_args()
    for plan in () if given.table else PLANS:
        for name, options in changes():
            key = f"{plan}/{name}"
            if name != "as it is" and not chosen([key], given.only):
                continue
            record = run_once(given.out, key, lambda plan=plan, options=options: run(plan, options))
            print(f"{key}: {record['error'] or record['verdict']}, {record['seconds']:.0f} s", flush=True)
    print(table(load_records(given.out)))


if __name__ == "__main__":
    main()
