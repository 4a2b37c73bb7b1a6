"""The arguments of `diffnea benchmark`."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class BenchmarkArguments:
    """Fit and judge the paper's 26 models on two systems and three data sets.

    What is already in OUT stays: a run that was stopped goes on where it was. Real recordings are taken from the folder
    that DIFFNEA_DATA names; without them a simulated stand-in takes their place, and is called that.
    """

    quick: bool = False
    """Fewer samples, starts and roll-outs: some minutes on a laptop."""
    systems: tuple[str, ...] = ("cartpole", "furuta")
    """Any of cartpole, furuta."""
    datasets: tuple[str, ...] = ("uniform", "simulated", "real")
    """Any of uniform, simulated, real."""
    models: tuple[str, ...] = ("all",)
    """Names of models, or all."""
    seeds: int = 1
    """How many seeds."""
    trainings: tuple[str, ...] = ("auto",)
    """Any of auto, adam (the paper's), trajectory (all on roll-outs); the report compares auto with adam."""
    engine: Literal["local", "ray"] = "local"
    """Where cells run: worker processes here, or a Ray cluster."""
    workers: int | None = None
    """How many cells run at once; by default one a core."""
    address: str | None = None
    """Of the Ray cluster; without one, Ray starts here."""
    retry: bool = False
    """Run cells that failed before again."""
    out: str = "runs"
    """The folder to write to."""
    json: bool = False
    """Print the result as one JSON object."""
    debug: bool = False
    """Show where in the program an error came from."""
