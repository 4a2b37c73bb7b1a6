"""The grid: 26 models × two systems × three data sets, and what one cell of it is."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from diffnea.text import meant

SYSTEMS = ("cartpole", "furuta")
DATASETS = ("uniform", "simulated", "real")  # "stand-in" takes the place of "real" where there are no recordings
TRAININGS = ("auto", "adam", "trajectory")  # the package's own, the paper's, and roll-outs for all recordings


class Entry(NamedTuple):
    """A row of the table: what is learned, with which actuator, and from where."""

    family: str  # "DiffNEA", "no-Kin", "NEA" or "FF-NN"
    actuator: str
    start: str  # "random" or "nominal": without and with prior


MODELS: dict[str, Entry] = {
    "diffnea-ideal": Entry("DiffNEA", "ideal", "random"),
    "diffnea-viscous": Entry("DiffNEA", "viscous", "random"),
    "diffnea-stribeck": Entry("DiffNEA", "stribeck", "random"),
    "diffnea-nn-friction": Entry("DiffNEA", "nn-friction", "random"),
    "diffnea-nn-residual": Entry("DiffNEA", "nn-residual", "random"),
    "diffnea-nn-torque": Entry("DiffNEA", "nn-torque", "random"),
    "diffnea-ideal-prior": Entry("DiffNEA", "ideal", "nominal"),
    "diffnea-viscous-prior": Entry("DiffNEA", "viscous", "nominal"),
    "diffnea-stribeck-prior": Entry("DiffNEA", "stribeck", "nominal"),
    "diffnea-nn-friction-prior": Entry("DiffNEA", "nn-friction", "nominal"),
    "diffnea-nn-residual-prior": Entry("DiffNEA", "nn-residual", "nominal"),
    "diffnea-nn-torque-prior": Entry("DiffNEA", "nn-torque", "nominal"),
    "nokin-ideal": Entry("no-Kin", "ideal", "random"),
    "nokin-viscous": Entry("no-Kin", "viscous", "random"),
    "nokin-stribeck": Entry("no-Kin", "stribeck", "random"),
    "nokin-nn-friction": Entry("no-Kin", "nn-friction", "random"),
    "nokin-nn-residual": Entry("no-Kin", "nn-residual", "random"),
    "nokin-nn-torque": Entry("no-Kin", "nn-torque", "random"),
    "nokin-ideal-prior": Entry("no-Kin", "ideal", "nominal"),
    "nokin-viscous-prior": Entry("no-Kin", "viscous", "nominal"),
    "nokin-stribeck-prior": Entry("no-Kin", "stribeck", "nominal"),
    "nokin-nn-friction-prior": Entry("no-Kin", "nn-friction", "nominal"),
    "nokin-nn-residual-prior": Entry("no-Kin", "nn-residual", "nominal"),
    "nokin-nn-torque-prior": Entry("no-Kin", "nn-torque", "nominal"),
    "nea": Entry("NEA", "viscous", "nominal"),
    "ff-nn": Entry("FF-NN", "", "random"),
}


@dataclass(frozen=True)
class Cell:
    """One run's whole configuration: a run is a pure function of it."""

    system: str
    dataset: str
    model: str
    seed: int = 0
    training: str = "auto"  # or another of TRAININGS
    quick: bool = False  # fewer samples, starts and roll-outs

    @property
    def entry(self) -> Entry:
        """The model's row of the table."""
        return MODELS[self.model]

    @property
    def variant(self) -> str:
        """The model's name, and how it was trained where that is not the usual way."""
        return self.model if self.training == "auto" else f"{self.model}+{self.training}"

    @property
    def title(self) -> str:
        """In words: system, data set, model and seed."""
        return f"{self.system}/{self.dataset}/{self.variant}/{self.seed}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def cells(
    systems: Iterable[str] = SYSTEMS,
    datasets: Iterable[str] = DATASETS,
    models: Iterable[str] = tuple(MODELS),
    seeds: int = 1,
    trainings: Iterable[str] = ("auto",),
    quick: bool = False,
) -> list[Cell]:
    """The cells asked for, those that share a compilation next to each other; unknown names are refused.

    Args:
        systems: any of `SYSTEMS`.
        datasets: any of `DATASETS`, or stand-in.
        models: any of `MODELS`.
        seeds: how many.
        trainings: any of `TRAININGS`.
        quick: fewer samples, starts and roll-outs.
    """
    systems = _known("system", systems, SYSTEMS)
    datasets = _known("data set", datasets, (*DATASETS, "stand-in"))
    models = _known("model", models, tuple(MODELS))
    trainings = _known("training", trainings, TRAININGS)
    if seeds < 1:
        raise ValueError(f"benchmark: {seeds} seeds; give 1 or more")
    return [
        Cell(system, dataset, model, seed, training, quick)
        for system in systems
        for model in models
        for training in trainings
        for dataset in datasets
        for seed in range(seeds)
    ]


def groups(chosen: Iterable[Cell]) -> list[list[Cell]]:
    """Cells that share their compilations together: those of one system, family, actuator and training.

    Networks come first, then friction: what takes longest must not be begun last, when other workers have nothing left.

    Args:
        chosen: the cells.
    """
    together: dict[tuple[str, ...], list[Cell]] = {}
    for cell in chosen:
        entry = cell.entry
        together.setdefault((cell.system, entry.family, entry.actuator, cell.training), []).append(cell)
    return sorted(together.values(), key=lambda group: _soon(group[0].entry.actuator))


def _soon(actuator: str) -> int:
    """A group's place in line, by what takes long: the plain network has no actuator."""
    return {"": 0, "stribeck": 1, "viscous": 2, "ideal": 3}.get(actuator, 0)


def _known(what: str, names: Iterable[str], known: tuple[str, ...]) -> tuple[str, ...]:
    """The names, each once, in small letters where these are known: the paper's are "NEA" and "FF-NN"."""
    names = tuple(dict.fromkeys(name.lower() if name.lower() in known else name for name in names))
    for name in names:
        if name not in known:
            raise ValueError(f'benchmark: {what} "{name}" is not known{meant(name, known)}; use {", ".join(known)}')
    if not names:
        raise ValueError(f"benchmark: no {what}; use {', '.join(known)}")
    return names
