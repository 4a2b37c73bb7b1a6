"""Fit: a fitted model, what is known of it, and a verdict on data that were not fitted."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

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


@dataclass(frozen=True)
class Fit:
    """A fitted model and what is known of it; `print(fit)` says the most of it."""

    model: AbstractModel
    metrics: Metrics
    verdict: Verdict
    loss: float
    history: tuple[float, ...]  # the lowest loss after each iteration
    notes: tuple[Note, ...]
    config: Json
    consistent: AbstractModel = field(repr=False)  # the nearest physical model: the same but for method linear
    knowledge: Callable[[], Knowledge] = field(repr=False)
    held_out: HeldOut | None = field(default=None, repr=False)  # for the page
    options: Options = field(default_factory=Options, repr=False)
    outcome: Status = Status.CONVERGED
    payload: Payload | None = None
    balance: Balance | None = field(default=None, repr=False)  # of a free base, for the page
    versions: dict[str, str] = field(default_factory=dict, repr=False)  # of what computed it, where it was read back

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
        """Write the fit into a folder: fit.json, weights.npz and the robot, identified (or rejected) .urdf and .xml."""
        from diffnea.identify.io.store import save  # here, because files are of fits

        return save(self, folder)

    def __str__(self) -> str:
        known = [f"  {each.formula} = {each.value:.5g} ± {each.std:.2g} {each.unit}" for each in self.identifiable]
        parts = [f"verdict: {self.verdict.status}", *(f"  {reason}" for reason in self.verdict.reasons)]
        parts += ["", str(self.metrics), "", "the data determine", *known]
        parts += ["the data do not tell", *(f"  {sentence}" for sentence in self.unknown)]
        return "\n".join(parts)
