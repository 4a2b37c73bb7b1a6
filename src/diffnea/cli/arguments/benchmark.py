"""The arguments of `diffnea benchmark`."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from diffnea.cli.arguments import Count, Flag, Text, Words


@dataclass(frozen=True)
class BenchmarkArguments:
    """Fit and judge the paper's 26 models on two systems and three data sets.

    What is already in OUT stays: a run that was stopped goes on where it was. Real recordings are taken from the folder
    that DIFFNEA_DATA names; without them a simulated stand-in takes their place, and is called that.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "diffnea benchmark --quick",
        "diffnea benchmark --systems cartpole --models nea ff-nn --seeds 5 --out runs",
        "diffnea benchmark --engine ray --workers 64",
    )

    quick: Flag = False
    """Fewer samples, starts and roll-outs: some minutes on a laptop."""
    systems: Words = ("cartpole", "furuta")
    """Any of cartpole, furuta."""
    datasets: Words = ("uniform", "simulated", "real")
    """Any of uniform, simulated, real."""
    models: Words = ("all",)
    """Names of models, or all: diffnea-viscous, nokin-stribeck-prior, nea, ff-nn and so on."""
    seeds: int = 1
    """How many seeds."""
    trainings: Words = ("auto",)
    """Any of auto, adam (the paper's), trajectory (all on roll-outs); the report compares auto with adam."""
    engine: Literal["local", "ray"] = "local"
    """Where cells run: worker processes here, or a Ray cluster."""
    workers: Count = None
    """How many cells run at once; by default one a core."""
    address: Text = None
    """Of the Ray cluster; without one, Ray starts here."""
    retry: Flag = False
    """Run cells that failed before again."""
    out: str = "runs"
    """The folder to write to."""
    json: Flag = False
    """Print the result as one JSON object."""
    quiet: Flag = False
    """Print the outcome in one line, and no progress or notes."""
    debug: Flag = False
    """Show where in the program an error came from."""
