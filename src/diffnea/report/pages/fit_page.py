"""The page of a fit: one HTML file that needs nothing else, made from the fit itself."""

import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

import numpy as np

from diffnea import files
from diffnea.flight import Flyer
from diffnea.identify import Fit, load_fit
from diffnea.identify.io.store import robot_files, versions
from diffnea.identify.precision import double_precision
from diffnea.identify.solve.solution import Status
from diffnea.models import Model
from diffnea.report import advice
from diffnea.report.evidence import Evidence, evidence
from diffnea.report.figures import fit_figures, servo_figures
from diffnea.report.figures.fit_figures import Joints
from diffnea.report.figures.playback import free_playback, playback
from diffnea.report.html import environment, styles
from diffnea.report.payload_rows import payload_rows
from diffnea.text import count, few, listed, number, radians

PAGE = "report.html"
FEW_JOINTS = 3  # of more, a sentence gives the range
_EMPTY = ("horizons", "rollouts", "motion", "friction", "spectra", "velocity", "position", "goals", "loads")
MARKS = {"accepted": "yes", "no better than the start": "partly", "failed": "no"}


def fit(folder: str | Path) -> Path:
    """Write `report.html` into the folder of a saved fit; returns the page's path.

    Args:
        folder: what `fit.save` has written to.
    """
    return save_page(load_fit(folder), folder)


def save_page(found: Fit, folder: str | Path) -> Path:
    """Write `report.html` of a fit into a folder; returns the page's path.

    Args:
        found: the fit.
        folder: where to.
    """
    out = Path(folder) / PAGE
    files.replace(out, page(found, Path(folder).name).encode())
    return out


def page(found: Fit, name: str = "out") -> str:
    """The page of a fit as text.

    Args:
        found: the fit.
        name: the folder that it says the fit is read from.
    """
    with double_precision():
        seen, joints = evidence(found), Joints.of(found)
        drawn = {} if seen is None else _figures(found, seen, joints)
        played = None if seen is None else playback(found, seen)
        if found.balance is not None:
            drawn = dict.fromkeys(_EMPTY, ()) | {"motion": fit_figures.balance(found.balance, joints)}
            played = free_playback(found.robot, found.balance)
        said = [] if seen is None else advice.missed(found, seen, joints)
    return (
        environment()
        .get_template("fit.html")
        .render(
            fit=found,
            name=name,
            mark=MARKS[found.verdict.status],
            summary=summary(found, joints),
            tiles=tiles(found, seen),
            joints=joints,
            payload=[] if found.payload is None else list(payload_rows(found.payload)),
            errors=error_rows(found, joints),
            given_masses=any(each.code == "servo-centres" for each in found.notes),
            quantity="torque" if seen is not None and _by_torque(found, seen) else "acceleration",
            residual="torque" if isinstance(found.model, Model) else "acceleration",
            figures=drawn,
            balance=found.balance,
            first=_first(drawn, seen, joints),
            forest=fit_figures.forest(found),
            history=fit_figures.history(found),
            playback=None if played is None else json.dumps(played, separators=(",", ":")).replace("<", "\\u003c"),
            runs=[] if played is None else [(run["model"], run["restart"]) for run in played["runs"]],
            played=played,
            missed=said,
            advice=advice.next_recordings(found, seen, joints),
            number=lambda value, digits=4: number(value, digits).replace("-", "−"),
            robot_files=robot_files(found.verdict) if isinstance(found.model, Model) else None,
            versions=found.versions or versions(),
            today=date.today().isoformat(),
            **styles("playback.js"),
        )
    )


def _by_torque(found: Fit, seen: Evidence) -> bool:
    """Torque where every joint is driven: there it is what was commanded. Elsewhere acceleration."""
    return isinstance(found.model, Model) and (all(seen.driven) or found.config["loss"] == "torque")


def _figures(found: Fit, seen: Evidence, joints: Joints) -> dict[str, list[fit_figures.Figure]]:
    physical = isinstance(found.model, Model)
    return {
        "horizons": fit_figures.horizons(found, joints),
        "rollouts": fit_figures.rollouts(seen, joints),
        "motion": fit_figures.motion(seen, joints, _by_torque(found, seen)),
        "friction": list(fit_figures.friction(found, seen, joints)),
        "spectra": list(fit_figures.spectra(seen, joints, physical)),
        "velocity": list(fit_figures.leftovers(seen, joints, physical, "velocity")),
        "position": list(fit_figures.leftovers(seen, joints, physical, "position")),
        "goals": list(servo_figures.followed(found, seen, joints)),
        "loads": list(servo_figures.friction_maps(found, seen, joints)),
    }


def _first(
    drawn: Mapping[str, Sequence[fit_figures.Figure]], seen: Evidence | None, joints: Joints
) -> fit_figures.Figure | None:
    """What the page opens with: a typical roll-out, or torques or accelerations where nothing is rolled out."""
    if drawn.get("rollouts") and seen is not None:
        return fit_figures.opening(seen, joints)
    return next(iter(drawn.get("motion", [])), None)


def summary(found: Fit, joints: Joints) -> str:
    """What was learned from what, and how well it predicts, in two sentences."""
    config = found.config
    names, samples = config.get("recordings", []), config.get("samples", 0)
    data = f"{count(samples, 'sample')}" if names in ([], ["samples"]) else f"{count(len(names), 'recording')}"
    if found.outcome is Status.NOT_FINITE:
        return f"Nothing was learned from {data}; what is drawn is the start."
    what = "a network" if not isinstance(found.model, Model) else listed(config["learn"])
    what = "thrust, drag and the state ahead" if isinstance(found.model, Flyer) else what
    actuator = f" ({config['actuator']})" if "actuator" in config["learn"] else ""
    return f"Learned {what}{actuator} from {data}. {_prediction(found, joints)}"


def _prediction(found: Fit, joints: Joints) -> str:
    ours, theirs = found.metrics.fit, found.metrics.start
    if not ours.horizons and ours.nmse is None and ours.torque_joints:
        left = [f"{np.sqrt(np.mean(side.torque_joints)):.1%}" for side in (ours, theirs)]
        return f"Of the equations of motion on data not fitted {left[0]} is left; of the start's {left[1]}."
    if not ours.horizons:
        nmse = number(ours.nmse, 3), number(theirs.nmse, 3)
        return f"On samples not fitted, the nMSE of accelerations is {nmse[0]}; the start's is {nmse[1]}."
    k = _shown(ours.horizons)
    sides = [_lengths(side.error_joints[k], joints) for side in (ours, theirs)]
    names = f" ({listed(joints.names)})" if len(joints.names) <= FEW_JOINTS else ""
    return (
        f"On data not fitted, a prediction {ours.horizons[k]:g} s ahead is typically off by {sides[0]}{names}; "
        f"the start by {sides[1]}."
    )


def _lengths(errors: Sequence[float], joints: Joints) -> str:
    """Each joint's error, or of many joints the smallest and the largest."""
    if len(errors) <= FEW_JOINTS:
        return listed([radians(value, slides) for value, slides in zip(errors, joints.sliding, strict=True)])
    kinds = [[e for e, s in zip(errors, joints.sliding, strict=True) if s == slides] for slides in (False, True)]
    spans = [f"{radians(min(e), s)} to {radians(max(e), s)}" for e, s in zip(kinds, (False, True), strict=True) if e]
    return listed(spans)


def _shown(horizons: tuple[float, ...]) -> int:
    """Which horizon headlines tell: 1 s, or the longest below it."""
    return max([k for k, horizon in enumerate(horizons) if horizon <= 1.0], default=0)


def tiles(found: Fit, seen: Evidence | None) -> list[tuple[str, str]]:
    """A few numbers to begin with, each with its words; none where nothing was learned."""
    ours, theirs = found.metrics.fit, found.metrics.start
    rows = []
    if found.outcome is Status.NOT_FINITE:
        return rows
    if ours.horizons:
        k = _shown(ours.horizons)
        times, compared = _times(theirs.error[k], ours.error[k])
        rows.append((times, f"{compared}, {ours.horizons[k]:g} s ahead"))
        rows.append((f"{number(ours.good_for, 3)} s", "until a prediction is off by a tenth of the motion"))
        rows.append((f"{ours.diverged} of {ours.windows}", "predictions diverged"))
    if seen is None and ours.nmse is None and ours.torque_joints:
        explained, what = 1 - float(np.mean(ours.torque_joints)), "forces and torques"
    elif seen is not None and _by_torque(found, seen):
        explained, what = 1 - float(np.mean(advice.left_over(found, seen))), "torques"
    else:
        explained, what = 1 - (1.0 if ours.nmse is None or not np.isfinite(ours.nmse) else ours.nmse), "accelerations"
    rows.append((f"{max(0.0, explained):.1%}", f"of {what} explained, on data not fitted"))
    if found.known.counts is not None:
        counts = found.known.counts
        rows.append((f"{counts['rank']} of {counts['unknowns']}", "learned numbers are determined by the data"))
    return rows


def _times(before: float, after: float) -> tuple[str, str]:
    """How many times smaller an error is, or larger, and that in words."""
    if before == after or not np.isfinite(max(before, after)):
        return few(after), "typical error as a share of the motion"
    small, large = sorted((before, after))
    ratio = large / small if small > 0 else np.inf
    words = f"{'smaller' if after < before else 'larger'} error than the start"
    return (f"{few(ratio)} ×" if ratio < 1e4 else "> 10⁴ ×"), words


def error_rows(found: Fit, joints: Joints) -> list[tuple[str, str, list[str], str]]:
    """The table beside the charts of horizons: one row a model and horizon."""
    sides = {"fit": found.metrics.fit, "start": found.metrics.start}
    sides |= {"constant velocity": found.metrics.constant_velocity, "standing still": found.metrics.standing_still}
    rows = []
    for k, horizon in enumerate(found.metrics.fit.horizons):
        for name, side in sides.items():
            if side is not None:
                cells = [
                    radians(value, slides) for value, slides in zip(side.error_joints[k], joints.sliding, strict=True)
                ]
                rows.append((f"{horizon:g} s", name, cells, number(side.error[k], 3)))
    return rows
