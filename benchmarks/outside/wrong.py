"""Wrong set-ups and right ones, fitted as a user would: which are accepted, what is said, how well they predict.

    python -m benchmarks.outside.wrong --out runs/wrong.jsonl
    python -m benchmarks.outside.wrong --out runs/wrong.jsonl --only degrees right/rpr
    python -m benchmarks.outside.wrong --out runs/wrong.jsonl --table

Wrong and right set-ups take turns, and so do mistakes and machines, so that a run that was cut short is balanced too.
The fresh error of a fit is that of its predictions of another log, without mistakes, of the machine as it is: over
0.5 s in spreads of the joints, and of forces as a share of the inputs' spread. That of a wrong set-up that was accepted
is compared with that of the right set-up of the same machine; others predict nothing. Where a fit says that inputs act
late, are in another unit or are goals, or that positions are counted from elsewhere, and has learned so, the other
log's are as the same recorder would have them; from goals no forces follow.
"""

import argparse
from collections.abc import Iterable
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from benchmarks.outside.families import FAMILIES
from benchmarks.outside.fitting import Said, fit_as_a_user, load, recording, rollout_error, said_by, torque_error
from benchmarks.outside.mistakes import MISTAKES, NAMES, NO_MISTAKES, Mistake
from benchmarks.outside.records import chosen, load_records, run_once
from benchmarks.outside.robots import nominal
from benchmarks.outside.simulate import Experiment, machine_of, simulate

OFF = 0.15  # how far files are off; rotors are as in a data sheet, right
ROBOT = 200  # seed of the first robot of each family, unless another is asked for
RIGHT = 7  # robots of each family that are fitted without a mistake
WRONG = ("planar2", "rpr", "tree4", "planar3")  # families that mistakes are made with
# What a fit has found out about inputs and zeros and learned, and says: it predicts logs of the same recorder.
DELAY, GAIN, SERVO, ZERO = "chosen-delay", "chosen-gain", "chosen-servo", "far-zero"
ERRORS = {"rollout": "roll-outs", "torque": "forces"}  # of fresh predictions, by name
# What an accepted fit says against itself, by the codes of its notes.
SAID = {
    "vibration": "a joint bends or shakes",
    "foretold": "good for motions like these",
    "hint-small-motion": "good for motions like these",
    "hint-slow-motion": "good for motions like these",
    "chosen-coupling": "the file may not be that of this machine",
    "chosen-offset": "the file may not be that of this machine",
}
WORSE = 3.0  # a fresh error is bad beyond this multiple of the right set-up's


def setups(robot: int = ROBOT) -> dict[str, tuple[Experiment, Mistake]]:
    """By key, of machines from this seed on: first the right ones that others are compared with, then in turns."""
    right, wrong = _right(robot), _wrong(robot)
    first = [f"right/{family}_{robot}" for family in WRONG]
    later = zip_longest(wrong, [key for key in right if key not in first])
    order = [*first, *(key for pair in later for key in pair if key is not None)]
    every = {**right, **wrong}
    return {key: every[key] for key in order}


def _right(robot: int) -> dict[str, tuple[Experiment, Mistake]]:
    """All families in turn."""
    found = {}
    for turn in range(RIGHT):
        for place, family in enumerate(FAMILIES):
            noise = "lo" if turn == 0 else ("hi", "lo")[(turn + place) % 2]
            friction = "viscous" if (turn + place) % 4 == 3 else "dry"
            experiment = Experiment(family, robot + turn, run=turn, noise=noise, friction=friction if turn else "dry")
            found[f"right/{family}_{robot + turn}"] = experiment, Mistake()
    return found


def _wrong(robot: int) -> dict[str, tuple[Experiment, Mistake]]:
    """Every mistake once, each with the next family, then all again with the family after that."""
    found = {}
    for turn in range(len(WRONG)):
        for place, (name, mistake) in enumerate(MISTAKES.items()):
            family = WRONG[(turn + place) % len(WRONG)]
            if (name, family) in NO_MISTAKES:
                continue
            found[f"{name}/{family}_{robot}"] = Experiment(family, robot, run=0), mistake
    return found


def predicts(key: str, verdict: str, every: Iterable[str]) -> bool:
    """Whether the fit of this set-up predicts a fresh log: wrong ones that were accepted, and what they are beside."""
    kind, machine = key.split("/")
    if kind != "right":
        return verdict == "accepted"
    return any(other != key and other.endswith(f"/{machine}") for other in every)


def run(key: str, every: dict[str, tuple[Experiment, Mistake]]) -> dict[str, Any]:
    """Fit one set-up, note what is said, and predict a fresh log where that is compared."""
    given, mistake = every[key]
    experiment = mistake.experiment(given)
    machine = machine_of(experiment)
    file = mistake.file(nominal(machine, OFF, given.robot), experiment)
    log = simulate(experiment)
    arrays = mistake.log({"time": log.time, "q": log.q, "u": log.u}, machine, log)
    try:
        fit = fit_as_a_user(load(file), [recording(log, machine, False, **arrays)])
    except ValueError as problem:  # what a user would see as a message, before any fit
        return _record(Said("refused", (), str(problem)), None, None)
    said = said_by(fit)
    if not predicts(key, said.verdict, every):
        return _record(said, None, None)
    fresh = replace(experiment, run=experiment.run + 500, noise="none", process=0.0, amplitude=1.0, pace=1.0, drift=1.0)
    unseen = simulate(fresh)
    if ZERO in said.codes:
        shown = mistake.log({"time": unseen.time, "q": unseen.true_q, "u": unseen.u}, machine, unseen)["q"]
        unseen = replace(unseen, true_q=shown)
    logged = mistake.log({"time": unseen.time, "q": unseen.q, "u": unseen.u}, machine, unseen)["u"]
    rolled = replace(unseen, u=logged) if {DELAY, GAIN, SERVO} & {*said.codes} else unseen
    pushed = replace(unseen, u=logged) if GAIN in said.codes and DELAY not in said.codes else unseen  # at one instant
    forces = None if SERVO in said.codes else torque_error(fit.model, pushed, machine, unseen.u.std(0))
    errors = rollout_error(fit.model, rolled, fresh.rate), forces
    return _record(said, *errors)


def _record(said: Said, rollout: float | None, torque: float | None) -> dict[str, Any]:
    return {"verdict": said.verdict, "codes": said.codes, "text": said.text, "rollout": rollout, "torque": torque}


def named(record: dict[str, Any], mistake: str) -> bool:
    """Whether what was said has one of this mistake's codes."""
    return any(code in record["codes"] for code in NAMES[mistake])


# Report ----------------------------------------------------------------------------------------------------------


def report(records: Iterable[dict[str, Any]]) -> str:
    """Accepted wrong ones, causes named, right ones rejected."""
    records = list(records)
    broken = [r for r in records if r["error"]]
    fine = {r["key"]: r for r in records if not r["error"]}
    right = {key: r for key, r in fine.items() if key.startswith("right/")}
    wrong = {key: r for key, r in fine.items() if key not in right}
    lines = [*_accepted(wrong, right), *_named(wrong), *_rejected(right)]
    lines += [f"{len(broken)} raised an error:", *(f"  {r['key']}: {r['error']}" for r in broken)] if broken else []
    return "\n".join(lines)


def _accepted(wrong: dict[str, dict], right: dict[str, dict]) -> list[str]:
    rows, bad, unknown, servos = [], 0, 0, 0
    for key, r in wrong.items():
        beside = right.get(f"right/{key.split('/')[1]}")
        if r["verdict"] != "accepted":
            continue
        if SERVO in r["codes"]:  # another question: motion that follows from goals
            servos += 1
            rows.append(f"  {'servo':8} {key:30} roll-outs {float(r['rollout']):.3g} from goals")
            continue
        if beside is None:
            unknown += 1
            continue
        errors = {
            name: (float(r[name]), float(r[name]) / float(beside[name])) for name in ERRORS if r[name] is not None
        }
        worse = any(ratio > WORSE for _, ratio in errors.values())
        bad += worse
        told = "".join(f"; told: {words}" for code, words in SAID.items() if code in r["codes"])
        said = ", ".join(f"{ERRORS[name]} {value:.3g} ({ratio:.1f} x)" for name, (value, ratio) in errors.items())
        rows.append(f"  {'WORSE' if worse else 'as good':8} {key:30} {said}{told}")
    accepted = sum(r["verdict"] == "accepted" for r in wrong.values())
    compared = f"{bad} of them with more than {WORSE:g} x the right one's error, {unknown} without a right one"
    compared += f", {servos} as servos"
    return [f"{len(wrong)} wrong set-ups: {accepted} accepted, {compared}", *sorted(rows)]


def _named(wrong: dict[str, dict]) -> list[str]:
    nameable = {key: r for key, r in wrong.items() if key.split("/")[0] in NAMES}
    hits = {key: named(r, key.split("/")[0]) for key, r in nameable.items()}
    lines = [f"{sum(hits.values())} of {len(hits)} causes that have a name were named"]
    for mistake in NAMES:
        its = [hit for key, hit in hits.items() if key.startswith(f"{mistake}/")]
        lines += [f"  {mistake:18} {sum(its)} of {len(its)}"] if its else []
    return lines


def _rejected(right: dict[str, dict]) -> list[str]:
    refused = {key: r for key, r in right.items() if r["verdict"] != "accepted"}
    lines = [f"{len(refused)} of {len(right)} right set-ups were not accepted"]
    lines += [f"  {key}: {r['verdict']}: {r['text'].splitlines()[:1]}" for key, r in refused.items()]
    blamed = {key: [name for name in NAMES if named(r, name)] for key, r in right.items()}
    blamed = {key: names for key, names in blamed.items() if names}
    lines += [f"{len(blamed)} of {len(right)} right set-ups are told of a mistake"]
    return lines + [f"  {key}: {', '.join(names)}" for key, names in blamed.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", help="words, of which a set-up's key has one, as degrees or right/rpr")
    parser.add_argument("--out", type=Path, default=Path("runs/wrong.jsonl"))
    parser.add_argument("--robot", type=int, default=ROBOT, help="seed of the first robots: others for a fresh test")
    parser.add_argument("--table", action="store_true", help="only print what the file has")
    given = parser.parse_args()
    every = setups(given.robot)
    for key in () if given.table else chosen(list(every), given.only):
        record = run_once(given.out, key, lambda key=key: run(key, every))
        said = record["error"] or record["verdict"]
        if record.get("rollout") is not None:
            fresh = [f"{name} {float(record[each]):.3g}" for each, name in ERRORS.items() if record[each] is not None]
            said += f", fresh error of {', '.join(fresh)}"
        print(f"{key}: {said}, {record['seconds']:.0f} s", flush=True)
    print(report(load_records(given.out).values()))


if __name__ == "__main__":
    main()
