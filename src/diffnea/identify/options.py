"""Options: every tuned number of identification, by room, with its reason; stored with each fit."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class ProblemOptions:
    """Data as rows."""


@dataclass(frozen=True)
class SolveOptions:
    """The search for θ."""


@dataclass(frozen=True)
class TrajectoryOptions:
    """The trajectory loss."""


@dataclass(frozen=True)
class FrictionOptions:
    """Dry friction before it slips."""


@dataclass(frozen=True)
class DetermineOptions:
    """What the data determine."""


@dataclass(frozen=True)
class JudgeOptions:
    """The verdict."""


@dataclass(frozen=True)
class Options:
    """All of them; `dn.fit(..., options=replace(Options(), judge=...))` changes some."""

    problem: ProblemOptions = field(default_factory=ProblemOptions)
    solve: SolveOptions = field(default_factory=SolveOptions)
    trajectory: TrajectoryOptions = field(default_factory=TrajectoryOptions)
    friction: FrictionOptions = field(default_factory=FrictionOptions)
    determine: DetermineOptions = field(default_factory=DetermineOptions)
    judge: JudgeOptions = field(default_factory=JudgeOptions)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)
