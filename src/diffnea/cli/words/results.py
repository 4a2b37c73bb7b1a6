"""Results of commands as lines for a person: errors in millimetres and degrees, what is known, what is not."""

from collections.abc import Callable, Sequence
from typing import Any

from diffnea.cli.words.formulas import short
from diffnea.identify.payload import Payload
from diffnea.identify.solve.solution import Status
from diffnea.report.payload_rows import payload_rows
from diffnea.text import aligned, count, length, listed, number

# More lines than this of one kind are counted instead: of quantities, and of sentences.
_SHOWN, _SAID = 20, 3
_HOW = "--all shows them"

Combination = dict[str, Any]


# What is predicted of a flying body, in the order of a score.
FLIGHT = (("position", "m"), ("velocity", "m/s"), ("attitude", "rad"), ("rates", "rad/s"))


def fit_in_words(result: dict[str, Any], whole: bool = False) -> str:
    """The outcome of a fit: verdict, errors on data that were not fitted, what the data determine, where it is.

    `whole`: with base parameters and everything that the data do not tell.
    """
    driven = f" ({result['actuator']})" if "actuator" in result["learned"] else ""
    made = result["status"] != Status.NOT_FINITE.value
    what = f"learned {listed(result['learned'])}{driven}" if made else "nothing was learned"
    head = (
        f"{result['robot']}: {what} from "
        f"{count(result['recordings'], 'recording')} ({result['samples']} samples) in {result['seconds']:.1f} s"
    )
    lines = [head, *notes(result["notes"], result["note_codes"]), *(f"  ! {each}" for each in result["suspicions"]), ""]
    lines += [f"verdict: {result['verdict']}", *(f"  {reason}" for reason in result["reasons"]), ""]
    told = (
        payload(result["payload"]) if result["payload"] else known(result["identifiable"], whole, result["note_codes"])
    )
    lines += [*errors(result), "", *told, *unknown(result["unknown"], whole), ""] if made else []
    lines.append(f"written to {result['out']}: {', '.join(result['files'])}")
    if result["lacking"]:
        lines += ["not representable in URDF/MJCF:", *(f"  {each}" for each in result["lacking"])]
    return "\n".join(lines)


def notes(said: Sequence[str], codes: Sequence[str]) -> list[str]:
    """What was done on the way; what concerns single recordings is counted."""
    lines = [f"  {note}" for note, code in zip(said, codes, strict=True) if code != "data"]
    more = f"  {count(codes.count('data'), 'note')} on how the recordings were prepared; see fit.json"
    return [*lines, *([more] if "data" in codes else [])]


def errors(result: dict[str, Any]) -> list[str]:
    """Median errors of predictions on data not fitted, joint by joint, beside those of the start."""
    fit, start = result["metrics"]["fit"], result["metrics"]["start"]
    if not fit["horizons"] and fit["nmse"] is None:
        left = [
            f"{(sum(side['torque_joints']) / max(len(side['torque_joints']), 1)) ** 0.5:.2%}" for side in (fit, start)
        ]
        return [f"equations of motion, on data not fitted: {left[0]} of their terms is left, of the start {left[1]}"]
    if not fit["horizons"]:
        return [f"accelerations not fitted: nMSE {fit['nmse']:.3g}, of the start {start['nmse']:.3g}"]
    rows = [["", *(f"after {horizon:g} s" for horizon in fit["horizons"])]]
    if not result["joints"]:
        return _flight_errors(fit, start, rows)
    for k, joint in enumerate(result["joints"]):
        ours, before = ([_length(row[k], k, result) for row in side["error_joints"]] for side in (fit, start))
        rows.append([f"  {joint}", *(f"{a} ({b})" for a, b in zip(ours, before, strict=True))])
    if fit["torque_joints"]:
        rows[0].append("torque explained")
        for row, ours, before in zip(rows[1:], fit["torque_joints"], start["torque_joints"], strict=True):
            row.append(f"{_explained(ours)} ({_explained(before)})")
    head = f"predicting ahead, on data not fitted: typical error, and that of {result['robot']} in brackets"
    lines = [head, *aligned(rows)]
    if fit["diverged"]:
        lines.append(f"{fit['diverged']} of {fit['windows']} predictions diverged")
    return lines


def _flight_errors(fit: dict[str, Any], start: dict[str, Any], rows: list[list[str]]) -> list[str]:
    """Mean errors of a flying body's state, beside those of velocity and attitude held."""
    for k, (name, unit) in enumerate(FLIGHT):
        pairs = zip(fit["error_joints"], start["error_joints"], strict=True)
        rows.append([f"  {name}", *(f"{ours[k]:.3g} {unit} ({theirs[k]:.3g})" for ours, theirs in pairs)])
    return [
        "predicting ahead, on flights not fitted: mean error, velocity and attitude held in brackets",
        *aligned(rows),
    ]


def _explained(left: float) -> str:
    """Of a variance; a joint that is not driven has none."""
    return f"{max(0.0, 1 - left):.1%}" if left == left else "–"


def _length(value: float, joint: int, result: dict[str, Any]) -> str:
    return length(value, result["sliding"][joint])


def known(combinations: Sequence[Combination], whole: bool = False, codes: Sequence[str] = ()) -> list[str]:
    """What the data determine, with intervals; of servos, whose goals tell no force, only with the file's masses."""
    if not combinations:
        return ["no physical parameter is identifiable from these data"]
    title = "with the file's masses the data determine" if "servo-centres" in codes else "the data determine"
    return quantities([title, "value", "95 % interval", "unit"], combinations, _interval, whole)


def payload(found: dict[str, Any], expected: bool = False) -> list[str]:
    """Mass, centre and inertia of what is carried, with intervals; before a fit, by how much they would be known."""
    read = Payload.from_dict(found)
    rows = [[f"payload, in the frame of {read.frame}", *(["95 %"] if expected else ["value", "95 % interval"]), "unit"]]
    for each in payload_rows(read):
        half = f"± {number((each.upper - each.lower) / 2, 2)}"
        ends = [number(each.value), f"{number(each.lower)} … {number(each.upper)}"]
        rows.append([f"  {each.name}", *([half] if expected else ends), each.unit])
    return [*aligned(rows), "  centre from the origin of that frame, inertia about the payload's own centre"]


def _interval(each: Combination) -> list[str]:
    return [number(each["value"]), f"{number(each['lower'])} … {number(each['upper'])}"]


def quantities(
    head: list[str], combinations: Sequence[Combination], cells: Callable[[Combination], list[str]], whole: bool
) -> list[str]:
    """A table of those that a person reads; base parameters, which are long sums, are counted unless all are wanted."""
    readable, sums = ([each for each in combinations if each["base"] is base] for base in (False, True))
    shown = [*readable, *sums] if whole else (readable or sums)[:_SHOWN]
    rows = [head, *([f"  {short(each['formula'])}", *cells(each), each["unit"]] for each in shown)]
    left = [each for each in combinations if each not in shown]
    more = len([each for each in left if not each["base"]])
    folded = [f"{more} more"] if more else []
    folded += [count(len(left) - more, "base parameter")] if len(left) > more else []
    return [*aligned(rows), *([f"  and {', and '.join(folded)}: {_HOW}"] if folded else []), *legend(shown)]


def legend(combinations: Sequence[Combination]) -> list[str]:
    """What the letters mean, where there are any."""
    if not any(each["kind"] == "inertia" and "(" in each["formula"] for each in combinations):
        return []
    return [
        "  m: mass, m·c: mass times centre of mass, J: inertia about the joint; of the link in brackets, in its frame"
    ]


def unknown(sentences: Sequence[str], whole: bool = False) -> list[str]:
    """What the data do not tell."""
    shown = sentences if whole or len(sentences) <= _SAID + 1 else sentences[:_SAID]
    left = len(sentences) - len(shown)
    lines = [f"  {sentence}" for sentence in shown] + ([f"  and {left} more: {_HOW}"] if left else [])
    return [f"the data do not tell {count(len(sentences), 'thing')}", *lines] if lines else []


def excite_in_words(result: dict[str, Any], whole: bool = False) -> str:
    """A planned motion: how it uses the limits, and what is known before and after."""
    lines = [f"{result['out']}: {result['seconds']:g} s, {result['samples']} samples, from rest to rest"]
    lines.append(f"intervals {result['narrower']:.2g} times narrower than those of random motions within the limits")
    names = {"position": "of its range", "velocity": "of its speed", "torque": "of its effort"}
    rows = [["at most", *result["joints"]]]
    rows += [[words, *(f"{share:.0%}" for share in result["used"][name])] for name, words in names.items()]
    could = result["structural_rank"]
    was = "" if result["rank_before"] is None else f" (now {result['rank_before']})"
    lines += [*aligned(rows), "", *result["notes"], f"it would determine {result['rank']} of {could} combinations{was}"]
    return "\n".join([*lines, *_before_and_after(result, whole), *unknown(result["unknown"], whole)])


def _before_and_after(result: dict[str, Any], whole: bool) -> list[str]:
    alone = result["rank_before"] is None

    def cells(each: Combination) -> list[str]:
        after = f"± {number(2 * each['std'] if each['std'] is not None else None)}"
        before = "unknown" if each["before"] is None else f"± {number(2 * each['before'])}"
        return [number(each["value"]), *([] if alone else [before]), after]

    widths = ["± expected"] if alone else ["± now", "± with it"]
    return quantities(["combination", "in the file", *widths, "unit"], result["combinations"], cells, whole)


def comparison_in_words(result: dict[str, Any]) -> str:
    """Two fits: verdicts, errors by horizon, the numbers that differ."""
    names = [side["name"] for side in result["sides"]]
    rows = [["", *names], ["verdict", *(side["verdict"] for side in result["sides"])]]
    for horizon, errors in zip(result["horizons"], result["errors"], strict=True):
        for k, joint in enumerate(result["joints"]):
            cells = [length(side[k], result["sliding"][k]) for side in errors]
            rows.append([f"{horizon:g} s ahead: {joint}", *cells])
    apart = [each for each in result["numbers"] if each["differs"]]
    for each in apart[:_SHOWN]:
        cells = [f"{number(v)} ± {number(1.96 * s, 2)}" for v, s in zip(each["values"], each["stds"], strict=True)]
        rows.append([f"{each['name']} [{each['unit']}]", *cells])
    agree = sum(each["differs"] is False for each in result["numbers"])
    told = f"of the numbers that both determine, {len(apart)} differ and {agree} agree"
    more = [f"the first {_SHOWN} of them are above"] if len(apart) > _SHOWN else []
    return "\n".join([result["conclusion"], "", *aligned(rows), "", told, *more, result["report"]])


def ranking_in_words(result: dict[str, Any]) -> str:
    """Many fits from best to worst: verdicts, actuators, errors by horizon."""
    rows = [["fit", "verdict", "actuator", *(f"{horizon:g} s ahead" for horizon in result["horizons"])]]
    for each in result["fits"]:
        rows.append([each["name"], each["verdict"], each["actuator"], *(number(error, 3) for error in each["error"])])
    return "\n".join([result["conclusion"], "", *aligned(rows), "", result["report"]])
