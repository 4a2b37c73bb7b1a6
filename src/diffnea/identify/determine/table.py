"""The table of a fit: one row a physical quantity, with its start, its estimate and whether the data determine it."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea import parameters
from diffnea.files import Json
from diffnea.identify.determine.combinations import Identifiability, Interval
from diffnea.identify.determine.structure.coordinates import value_and_slopes
from diffnea.identify.determine.uncertainty.friction_curves import with_fitted
from diffnea.models import AbstractModel, Model


@dataclass(frozen=True)
class Row:
    """A quantity: `std` is None where the data do not determine it alone."""

    name: str
    unit: str
    start: float
    estimate: float
    std: float | None
    identifiable: bool


@dataclass(frozen=True, repr=False)
class Table:
    """Rows in the order of the robot's links and joints; `print` it."""

    rows: tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, which: int | str) -> Row:
        """A row by its number or its name."""
        if isinstance(which, int):
            return self.rows[which]
        for row in self.rows:
            if row.name == which:
                return row
        raise KeyError(f'table: no quantity "{which}"; there are {", ".join(row.name for row in self.rows)}')

    def to_dicts(self) -> list[Json]:
        """Plain rows, for JSON or a data frame."""
        return [asdict(row) for row in self.rows]

    def to_dataframe(self) -> Any:
        """A pandas data frame, one row a quantity, its name as index; needs pandas."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_dataframe needs pandas; pip install pandas, or use to_dicts()") from None
        return pandas.DataFrame(self.to_dicts()).set_index("name")

    def __repr__(self) -> str:
        return f"Table of {len(self.rows)} quantities; print it, or table.to_dataframe()"

    def _repr_html_(self) -> str:
        """For notebooks."""
        head = "".join(f"<th>{name}</th>" for name in ("quantity", "unit", "start", "estimate", "std", "determined"))
        lines = []
        for row in self.rows:
            std = "" if row.std is None else f"{row.std:.2g}"
            cells = (
                row.name,
                row.unit,
                f"{row.start:.5g}",
                f"{row.estimate:.5g}",
                std,
                "yes" if row.identifiable else "no",
            )
            lines.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"

    def __str__(self) -> str:
        width = max([len(f"{row.name} [{row.unit}]") for row in self.rows], default=0)
        lines = [f"{'quantity':{width}} {'start':>12} {'estimate':>12} {'std':>10}  determined"]
        for row in self.rows:
            std = "" if row.std is None else f"{row.std:.2g}"
            said = "yes" if row.identifiable else "no"
            name = f"{row.name} [{row.unit}]"
            lines.append(f"{name:{width}} {row.start:>12.5g} {row.estimate:>12.5g} {std:>10}  {said}")
        return "\n".join(lines)


def table(
    start: AbstractModel, model: AbstractModel, learned: Sequence[str], analysis: Identifiability | None
) -> Table:
    """What was learned of a model, beside its start; a network has no physical quantities."""
    if not isinstance(model, Model) or not isinstance(start, Model):
        return Table(())
    names, chosen = _names(model, learned)
    before, after = (np.asarray(_values(each))[chosen] for each in (start, model))
    if analysis is None:
        return Table(
            tuple(Row(*name, float(a), float(b), None, False) for name, a, b in zip(names, before, after, strict=True))
        )
    _, slopes = value_and_slopes(lambda theta: _values(analysis.unpack(theta))[chosen], jnp.asarray(analysis.theta))
    moved = np.any(slopes != 0, axis=1) | (before != after)  # what cannot move was not learned, as links not chosen
    found = [
        analysis.estimate.interval(float(v), s @ analysis.estimate.inverse) for v, s in zip(after, slopes, strict=True)
    ]
    found = _with_profiles(found, model, chosen, analysis)
    rows = zip(names, before, after, found, slopes, strict=True)
    return Table(tuple(_row(*row) for row, some in zip(rows, moved, strict=True) if some))


def _with_profiles(
    found: list[Interval], model: Model, chosen: np.ndarray, analysis: Identifiability
) -> list[Interval]:
    """Friction curves have their intervals from profiles; open ones say nothing."""
    known = {(role, each.joint): ends for each in analysis.friction for role, ends in each.intervals.items()}
    n, first = model.num_joints, 17 * model.robot.num_links
    roles = [(quantity.role, j) for quantity in model.actuator.physical() for j in range(n)]
    intervals = []
    for place, interval in zip(chosen, found, strict=True):
        lower, upper = known.get(roles[place - first], (None, None)) if place >= first else (None, None)
        if lower is not None and upper is not None:
            lower, upper = with_fitted(interval.value, lower, upper)
            tells = bool(np.isfinite(upper) and lower > 0)
            interval = Interval(interval.value, (upper - lower) / (2 * 1.959964), lower, upper, tells)
        intervals.append(interval)
    return intervals


def _row(name: tuple[str, str], before: float, after: float, interval: Interval, slope: np.ndarray) -> Row:
    known = bool(interval.determined and np.any(slope != 0) and np.isfinite(interval.std))
    return Row(*name, float(before), float(after), float(interval.std) if known else None, known)


def _names(model: Model, learned: Sequence[str]) -> tuple[list[tuple[str, str]], np.ndarray]:
    """Names and units of the quantities of the learned parts, and where they stand in `_values`."""
    robot = model.robot
    names = [(quantity.name, quantity.unit) for quantity in parameters.physical(robot)]
    count = robot.num_links
    parts = ["inertia"] * (10 * count) + ["kinematics"] * (6 * count) + ["armature"] * count
    turns = robot.turning
    for quantity in model.actuator.physical():
        names += [
            (f"{joint} {quantity.name}", quantity.unit_of(bool(turn)))
            for joint, turn in zip(robot.joint_names, turns, strict=True)
        ]
        parts += ["actuator"] * robot.num_joints
    chosen = np.flatnonzero([part in learned for part in parts])
    return [names[i] for i in chosen], chosen


def _values(model: Model) -> Float[Array, " quantities"]:
    robot = parameters.physical_values(model.robot)
    rest = [jnp.asarray(quantity.values, robot.dtype) for quantity in model.actuator.physical()]
    return jnp.concatenate([robot, *rest])


def restored(rows: Sequence[Json]) -> Table:
    """The table of plain rows."""
    return Table(tuple(Row(**row) for row in rows))
