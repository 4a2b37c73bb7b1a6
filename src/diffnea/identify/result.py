"""Fit: a fitted model, what is known of it, and a verdict on data that were not fitted."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from html import escape

from diffnea.files import Json
from diffnea.identify.determine.combinations import Combination
from diffnea.identify.determine.findings import Knowledge
from diffnea.identify.determine.table import Table
from diffnea.identify.judge.assess import Metrics
from diffnea.identify.judge.balance import Balance
from diffnea.identify.judge.held_out import HeldOut
from diffnea.identify.judge.verdict import Verdict
from diffnea.identify.notes import Note
from diffnea.identify.options import Options
from diffnea.identify.payload import Payload
from diffnea.identify.solve.solution import Status
from diffnea.models import AbstractModel, Model
from diffnea.robot import Robot


@dataclass(frozen=True)
class Saved:
    """What a fit has left in a folder: the names of its files, and what the model has and robot files lack."""

    files: tuple[str, ...]
    lacking: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Fit:
    """A fitted model and what is known of it; `print(fit)` says the most of it."""

    model: AbstractModel
    metrics: Metrics
    verdict: Verdict
    loss: float
    history: tuple[float, ...]  # the lowest loss after each iteration
    notes: tuple[Note, ...]
    config: Json
    consistent: AbstractModel  # the nearest physical model: the same but for method linear
    knowledge: Callable[[], Knowledge]
    held_out: HeldOut | None = None  # for the page
    options: Options = field(default_factory=Options)
    outcome: Status = Status.CONVERGED
    payload: Payload | None = None
    balance: Balance | None = None  # of a free base, for the page
    versions: dict[str, str] = field(default_factory=dict)  # of what computed it, where it was read back

    @property
    def status(self) -> str:
        """How the search ended: "converged", "stopped early" or "not finite"."""
        return self.outcome.value

    @cached_property
    def known(self) -> Knowledge:
        """What the data determine; worked out when first asked for."""
        return self.knowledge()

    @property
    def table(self) -> Table:
        """One row a physical quantity: start, estimate, standard deviation, whether the data determine it."""
        return self.known.table

    @property
    def identifiable(self) -> tuple[Combination, ...]:
        """The combinations that the data determine, with intervals."""
        return self.known.identifiable

    @property
    def unknown(self) -> tuple[Note, ...]:
        """What the data do not tell, and why; `str` of each is a sentence."""
        return self.known.unknown

    @property
    def robot(self) -> Robot:
        """The robot that was learned."""
        if not isinstance(self.model, Model):
            raise AttributeError("a network has no robot; use fit.model")
        return self.model.robot

    def save(self, folder: str | os.PathLike[str]) -> Saved:
        """Write the fit into a folder: fit.json, weights.npz and the robot, identified (or rejected) .urdf and .xml.

        Args:
            folder: where to; it is made, and what an earlier fit left there gives way.
        """
        from diffnea.identify.io.store import save  # here, because files are of fits

        return save(self, folder)

    def __repr__(self) -> str:
        robot, learned = self.config.get("robot"), "+".join(self.config.get("learn", ()))
        return f"Fit of {robot} ({learned}, {self.config.get('actuator')}): {self.verdict.status}; print it for all"

    def _repr_html_(self) -> str:
        """For notebooks: the verdict with its reasons, and what the data determine."""
        reasons = "".join(f"<li>{escape(reason)}</li>" for reason in self.verdict.reasons)
        rows = [
            (each.formula, f"{each.value:.4g}", f"{each.lower:.4g} … {each.upper:.4g}", each.unit)
            for each in self.identifiable
            if not each.base
        ]
        lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        head = "".join(f"<th>{name}</th>" for name in ("the data determine", "value", "95 % interval", "unit"))
        return (
            f"<p><b>{escape(str(self.config.get('robot')))}: {self.verdict.status}</b></p><ul>{reasons}</ul>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
        )

    def __str__(self) -> str:
        known = [f"  {each.formula} = {each.value:.5g} ± {each.std:.2g} {each.unit}" for each in self.identifiable]
        parts = [f"verdict: {self.verdict.status}", *(f"  {reason}" for reason in self.verdict.reasons)]
        parts += ["", str(self.metrics), "", "the data determine", *known]
        parts += ["the data do not tell", *(f"  {sentence}" for sentence in self.unknown)]
        return "\n".join(parts)
