"""How often 95 % intervals hold the truth, on logs of an outside simulator, from files that are 5 to 30 % off.

    python -m benchmarks.outside.coverage --sets 60 --losses torque acceleration trajectory --out runs/coverage.jsonl
    python -m benchmarks.outside.coverage --sets 60 --generate            make the logs, nothing else
    python -m benchmarks.outside.coverage --out runs/coverage.jsonl --table

A set is a robot, a noise and a friction; its actuator is fitted in the form it has: "viscous" or "stribeck", with
"delay" and "gain" where the set has them. Rotors are learned too. Only accepted fits count; the others are counted.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.outside.families import FAMILIES
from benchmarks.outside.fitting import KINDS, fit_with, load, numbers, recording
from benchmarks.outside.records import chosen, load_records, run_once
from benchmarks.outside.robots import nominal
from benchmarks.outside.simulate import Experiment, machine_of, simulate

LOSSES = ("torque", "acceleration", "trajectory")
OFF = (0.05, 0.1, 0.2, 0.3)  # how far files are off
LEARN = ("inertia", "armature", "actuator")
FIRST = 100  # seed of the first robot of each family
LOGS = 1  # of each set


@dataclass(frozen=True)
class Case:
    """One data set, by its number."""

    number: int
    off: float
    experiments: tuple[Experiment, ...]

    @property
    def key(self) -> str:
        """Says what it is: `--only` looks for words in it."""
        e = self.experiments[0]
        parts = [f"{self.number:03d}", e.family, str(e.robot), e.noise, e.friction]
        parts += [name for name, there in (("delay", e.delay), ("gain", e.gain != 1)) if there]
        return "_".join(parts)

    @property
    def actuator(self) -> str:
        """By name, with the parts that the set has."""
        e = self.experiments[0]
        parts = ["stribeck" if e.friction == "dry" else "viscous"]
        return "+".join(parts + ["delay"] * (e.delay > 0) + ["gain"] * (e.gain != 1))


def case(number: int) -> Case:
    """All families in turn; both noises; dry friction in two of three; some with a late command or unknown gain."""
    families = list(FAMILIES)
    turn, place = divmod(number, len(families))
    rng = np.random.default_rng([number, 9])
    late, gain = float(rng.uniform(0.3, 1.7)), float(rng.uniform(0.7, 1.4))
    common = {
        "family": families[place],
        "robot": FIRST + turn // 2,
        "noise": ("lo", "hi")[(turn + place) % 2],
        "friction": ("dry", "dry", "viscous")[(number + turn) % 3],
        "delay": late if number % 5 == 4 else 0.0,
        "gain": gain if number % 10 == 7 else 1.0,
    }
    runs = tuple(Experiment(run=1000 * number + k, **common) for k in range(LOGS))
    return Case(number, OFF[(number + turn) % len(OFF)], runs)


def run(each: Case, loss: str) -> dict[str, Any]:
    """Fit one set with one loss and compare with the truth."""
    first = each.experiments[0]
    machine = machine_of(first)
    robot = load(nominal(machine, each.off, each.number, rotors=each.off))
    logs = [recording(simulate(e), machine) for e in each.experiments]
    fit = fit_with(robot, logs, actuator=each.actuator, loss=loss, learn=LEARN)
    accepted = str.__str__(fit.verdict) == "accepted"
    rows = [{**asdict(n), "held": n.held} for n in numbers(fit, first)] if accepted else []
    return {
        "loss": loss,
        "family": first.family,
        "noise": first.noise,
        "friction": first.friction,
        "off": each.off,
        "actuator": each.actuator,
        "verdict": str.__str__(fit.verdict),
        "reasons": [str(reason) for reason in fit.verdict.reasons],
        "numbers": rows,
    }


def losses_of(each: Case, asked: Iterable[str]) -> list[str]:
    """Those that a set can be fitted with: where a gain is to be learned, torques leave the scale open."""
    return [loss for loss in asked if loss != "torque" or each.experiments[0].gain == 1]


def key_of(each: Case, loss: str) -> str:
    """Of a record."""
    return f"{each.key}/{loss}"


# Tables ----------------------------------------------------------------------------------------------------------


def table(records: Iterable[dict[str, Any]]) -> str:
    """Coverage in per cent, ± two standard deviations of a count, and how many; one row a kind."""
    records = list(records)
    fine = [r for r in records if not r["error"]]
    columns = {"all": fine}
    columns |= {loss: [r for r in fine if r["loss"] == loss] for loss in LOSSES}
    columns |= {noise: [r for r in fine if r["noise"] == noise] for noise in ("lo", "hi")}
    columns |= {friction: [r for r in fine if r["friction"] == friction] for friction in ("dry", "viscous")}
    columns = {name: rows for name, rows in columns.items() if rows}
    lines = [f"{'':18}" + "".join(f"{name:>18}" for name in columns)]
    for kind in ("overall", *KINDS):
        cells = [_cell(rows, kind) for rows in columns.values()]
        if any(cells):
            lines.append(f"{kind:18}" + "".join(f"{cell:>18}" for cell in cells))
    counts = [f"{sum(r['verdict'] == 'accepted' for r in rows)} of {len(rows)}" for rows in columns.values()]
    lines.append(f"{'accepted fits':18}" + "".join(f"{cell:>18}" for cell in counts))
    lines += _by_loss_and_noise(fine)
    broken = [r for r in records if r["error"]]
    lines += [f"{len(broken)} raised an error:", *(f"  {r['key']}: {r['error']}" for r in broken)] if broken else []
    return "\n".join(lines)


def _cell(rows: list[dict[str, Any]], kind: str) -> str:
    held = [n["held"] for r in rows for n in r["numbers"] if kind in ("overall", n["kind"])]
    if not held:
        return ""
    share = float(np.mean(held))
    return (
        f"{100 * share:.1f} ± {200 * np.sqrt(max(share * (1 - share), 0.25 / len(held)) / len(held)):.1f} ({len(held)})"
    )


def _by_loss_and_noise(fine: list[dict[str, Any]]) -> list[str]:
    groups = defaultdict(list)
    for r in fine:
        groups[r["loss"], r["noise"], r["friction"]].append(r)
    lines = ["", f"{'loss':14}{'noise':7}{'friction':10}{'coverage':>18}{'accepted':>14}{'s a fit':>10}"]
    for (loss, noise, friction), rows in sorted(groups.items()):
        accepted = f"{sum(r['verdict'] == 'accepted' for r in rows)} of {len(rows)}"
        spent = np.median([r["seconds"] for r in rows])
        lines.append(f"{loss:14}{noise:7}{friction:10}{_cell(rows, 'overall'):>18}{accepted:>14}{spent:10.0f}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=60)
    parser.add_argument("--first", type=int, default=0, help="number of the first set: others for a fresh test")
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=list(LOSSES))
    parser.add_argument("--only", nargs="+", help="words, of which a set's key has one, as rpr or _hi_")
    parser.add_argument("--out", type=Path, default=Path("runs/coverage.jsonl"))
    parser.add_argument("--generate", action="store_true", help="only make the logs")
    parser.add_argument("--table", action="store_true", help="only print what the file has")
    given = parser.parse_args()
    cases = {each.key: each for each in map(case, range(given.first, given.first + given.sets))}
    cases = {key: cases[key] for key in chosen(list(cases), given.only)}
    for each in () if given.table else cases.values():
        began = time.perf_counter()
        for experiment in each.experiments:
            simulate(experiment)
        print(f"{each.key}: logs {time.perf_counter() - began:.1f} s", flush=True)
        for loss in () if given.generate else losses_of(each, given.losses):
            record = run_once(given.out, key_of(each, loss), lambda each=each, loss=loss: run(each, loss))
            held = [n["held"] for n in record.get("numbers", ())]
            said = record["error"] or f"{record['verdict']}, {sum(held)} of {len(held)} hold"
            print(f"  {loss}: {said}, {record['seconds']:.0f} s", flush=True)
    if not given.generate:
        print(table(r for key, r in load_records(given.out).items() if chosen([key], given.only)))


if __name__ == "__main__":
    main()
