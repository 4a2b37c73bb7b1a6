"""Many fits of one robot, from best to worst: verdicts, what was learned and errors, as plain data and as a page."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from diffnea import files
from diffnea.identify import Fit, load_fit
from diffnea.report.figures import charts
from diffnea.report.figures.fit_figures import Joints, decades
from diffnea.report.html import environment, styles
from diffnea.report.pages.comparison import EQUAL
from diffnea.report.pages.fit_page import MARKS
from diffnea.text import listed, number

KINDS = ("fit", "other", "start", "measured", "guess")  # colours of the first ones; the rest is not drawn


@dataclass(frozen=True)
class Ranked:
    """One of the fits."""

    name: str
    verdict: str
    learn: tuple[str, ...]
    actuator: str
    error: tuple[float, ...]  # by horizon, as a share of the motion
    mean: float  # geometric, of these


@dataclass(frozen=True)
class Ranking:
    """Fits from best to worst."""

    horizons: tuple[float, ...]
    fits: tuple[Ranked, ...]
    same_data: bool
    conclusion: str

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def rank(folders: Sequence[str | Path]) -> Ranking:
    """The fits in these folders; they must be of the same joints.

    Args:
        folders: those of fits.
    """
    fits = {str(folder): load_fit(folder) for folder in folders}
    if len(fits) < 2:
        raise ValueError(f"report: {len(fits)} fits; give at least two to compare")
    names = {name: Joints.of(fit).names for name, fit in fits.items()}
    first = next(iter(names))
    for name, joints in names.items():
        if joints != names[first]:
            ours, theirs = ", ".join(names[first]), ", ".join(joints)
            raise ValueError(
                f"report: {first} is of joints {ours}, {name} of {theirs}; compare fits of the same joints"
            )
    found = list(fits.values())
    shared = tuple(h for h in found[0].metrics.fit.horizons if all(h in fit.metrics.fit.horizons for fit in found))
    ranked = tuple(sorted((_ranked(name, fit, shared) for name, fit in fits.items()), key=lambda each: each.mean))
    same = bool(shared) and all(fit.metrics.constant_velocity == found[0].metrics.constant_velocity for fit in found)
    return Ranking(shared, ranked, same, _conclusion(ranked, same))


def ranking_page(found: Ranking, out: str | Path) -> Path:
    """Write the ranking as a page; returns its path.

    Args:
        found: what `rank` gives.
        out: the file.
    """
    text = (
        environment()
        .get_template("ranking.html")
        .render(
            found=found,
            marks=MARKS,
            chart=_chart(found),
            kinds=KINDS,
            number=number,
            today=date.today().isoformat(),
            **styles(),
        )
    )
    files.replace(Path(out), text.encode())
    return Path(out)


def _ranked(name: str, fit: Fit, shared: tuple[float, ...]) -> Ranked:
    side = fit.metrics.fit
    error = tuple(float(side.error[side.horizons.index(horizon)]) for horizon in shared)
    known = np.clip(np.nan_to_num(np.array(error), nan=1e9), 1e-300, 1e9)
    mean = float(np.exp(np.mean(np.log(known)))) if error else float("inf")
    config = fit.config
    return Ranked(name, fit.verdict.status, tuple(config["learn"]), str(config["actuator"]), error, mean)


def _conclusion(ranked: Sequence[Ranked], same: bool) -> str:
    if not ranked[0].error:
        return "they were not all rolled out; compare the shares of acceleration that each explains"
    if not same:
        return "their errors are on different data: give all the same --test to compare them"
    best, second = ranked[:2]
    like = [each.name for each in ranked if abs(np.log(each.mean / best.mean)) < EQUAL]
    if len(like) > 1:
        return f"{listed(like, 3)} predict equally well on the same data not fitted, and best"
    return f"{best.name} predicts best: its error is {best.mean / second.mean:.3g} times that of {second.name}"


def _chart(found: Ranking) -> str | None:
    if len(found.horizons) < 2:
        return None
    lines = [
        charts.Line(np.array(found.horizons), np.array(each.error), kind, each.name)
        for each, kind in zip(found.fits, KINDS, strict=False)
    ]
    panel = charts.Panel("share of the motion", lines, decades(lines), log=True)
    return charts.lines([panel], "seconds ahead", "Error by horizon", width=390.0, height=180.0, log=True)
