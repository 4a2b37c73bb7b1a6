"""The page of `diffnea check`: pictures of recordings before a fit, and what they would determine."""

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from diffnea import files
from diffnea.recordings import Diagnosis, Recording
from diffnea.report import residuals
from diffnea.report.figures import charts
from diffnea.report.figures.fit_figures import Figure, Joints, around, cloud, curve
from diffnea.report.html import environment, styles
from diffnea.text import number

# Of more recordings, the first ones are drawn; all of them are in the words.
MOST_DRAWN = 12
LAG_SECONDS = 1.5  # a stretch short enough to see that a velocity is late
DECADES = 6  # of a spectrum


def check(result: dict[str, Any], recordings: Sequence[Recording], found: Sequence[Diagnosis], out: str | Path) -> Path:
    """Write the page of a check; returns its path.

    Args:
        result: what the command returns.
        recordings: what was looked over.
        found: a diagnosis of each.
        out: the file.
    """
    joints = Joints(tuple(result["joints"]), tuple(result["sliding"]))
    drawn = [
        _pictures(recording, diagnosis, joints)
        for recording, diagnosis in zip(recordings[:MOST_DRAWN], found[:MOST_DRAWN], strict=True)
    ]
    text = (
        environment()
        .get_template("check.html")
        .render(
            result=result,
            drawn=drawn,
            number=lambda value, digits=4: number(value, digits).replace("-", "−"),
            today=date.today().isoformat(),
            **styles(),
        )
    )
    files.replace(Path(out), text.encode())
    return Path(out)


def _pictures(recording: Recording, found: Diagnosis, joints: Joints) -> dict[str, list[Figure]]:
    return {
        "motion": list(_motion(recording, found, joints)),
        "coverage": list(_coverage(found, joints)),
        "spectra": list(_spectra(recording, found, joints)),
        "lags": list(_lags(recording, found, joints)),
    }


def _motion(recording: Recording, found: Diagnosis, joints: Joints) -> Iterator[Figure]:
    """Position and input over time; an input at its limit is marked."""
    time = recording.time - recording.time[0]
    limits = {each.joint: (each.low, each.high) for each in found.saturation}
    for k, name in enumerate(joints.names):
        q, u = recording.q[:, k], recording.u[:, k]
        panels = [charts.Panel(joints.unit(k, "position"), [curve(time, q, "measured", "position")], around(q, 0.08))]
        if recording.driven[k]:
            ends = time[[0, -1]]
            lines = [curve(ends, np.full(2, end), "start", "rests at its limit") for end in limits.get(name, ())]
            panels.append(charts.Panel("input", [curve(time, u, "other", "input"), *lines], around(u, 0.08)))
        yield Figure(name, charts.lines(panels, "time in s", f"Motion and input of {name}", height=90.0))


def _coverage(found: Diagnosis, joints: Joints) -> Iterator[Figure]:
    """Which positions were passed at which velocities: nothing is known of the rest."""
    qd = found.smoothing.recording.qd
    assert qd is not None
    for k, name in enumerate(joints.names):
        x, y = found.smoothing.q[:, k], qd[:, k]
        panel = charts.Panel(joints.label(k, "velocity"), [cloud(x, y, "", "samples")], around(y, 0.08))
        yield Figure(name, charts.lines([panel], joints.label(k, "position"), f"Coverage of {name}", height=150.0))


def _spectra(recording: Recording, found: Diagnosis, joints: Joints) -> Iterator[Figure]:
    """Positions over frequency, the level of their noise, and the frequency up to which they are used."""
    piece = found.smoothing.recording
    dt = piece.duration / (len(piece) - 1)
    for k, (name, joint) in enumerate(zip(joints.names, found.smoothing.joints, strict=True)):
        whole = residuals.spectrum([piece.q[:, k]], dt)
        if whole is None or not np.any(whole[1] > 0):
            continue
        frequency, density = whole
        top = 10.0 ** np.ceil(np.log10(density.max()))
        noise = max(joint.noise * np.sqrt(2 * dt), 1e-300)  # white: its variance spread up to half the rate
        lines = [curve(frequency, density, "measured", "positions")]
        lines.append(curve(frequency[[0, -1]], np.full(2, noise), "start", "noise"))
        edge = np.full(2, np.clip(joint.bandwidth, frequency[0], frequency[-1]))
        lines.append(charts.Line(edge, np.array([top / 10**DECADES, top]), "fit", "used up to here"))
        panel = charts.Panel(f"{joints.unit(k, 'position')}/√Hz", lines, (top / 10**DECADES, top), log=True)
        yield Figure(name, charts.lines([panel], "frequency in Hz", f"Spectrum of {name}", height=140.0, log=True))


def _lags(recording: Recording, found: Diagnosis, joints: Joints) -> Iterator[Figure]:
    """A recorded velocity beside that from the positions, where the motion is fastest."""
    piece, edge = found.smoothing.recording, found.smoothing.dropped
    if recording.qd is None or len(recording) != len(piece) + 2 * edge or piece.qd is None:
        return
    time, recorded = piece.time - piece.time[0], recording.qd[edge : len(recording) - edge]
    for k, name in enumerate(joints.names):
        middle = time[int(np.argmax(np.abs(piece.qd[:, k])))]
        rows = np.abs(time - middle) < LAG_SECONDS / 2
        lines = [curve(time[rows], piece.qd[rows, k], "measured", "from positions")]
        lines.append(curve(time[rows], recorded[rows, k], "start", "recorded"))
        panel = charts.Panel(joints.label(k, "velocity"), lines, around(piece.qd[rows, k], 0.15))
        yield Figure(name, charts.lines([panel], "time in s", f"Velocity of {name}", height=130.0))
