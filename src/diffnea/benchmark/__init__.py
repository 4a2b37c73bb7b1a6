"""The paper's benchmark: 26 models, two systems, three data sets; records on disk, local or on a Ray cluster.

Names are imported when they are first asked for, so that the command line knows the models at once.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diffnea.benchmark.datasets import resolve as resolve
    from diffnea.benchmark.engine import ENGINES as ENGINES
    from diffnea.benchmark.engine import Summary as Summary
    from diffnea.benchmark.engine import run as run
    from diffnea.benchmark.grid import DATASETS as DATASETS
    from diffnea.benchmark.grid import MODELS as MODELS
    from diffnea.benchmark.grid import SYSTEMS as SYSTEMS
    from diffnea.benchmark.grid import TRAININGS as TRAININGS
    from diffnea.benchmark.grid import Cell as Cell
    from diffnea.benchmark.grid import cells as cells
    from diffnea.benchmark.grid import groups as groups
    from diffnea.benchmark.records import Record as Record
    from diffnea.benchmark.records import RecordError as RecordError
    from diffnea.benchmark.trial import run as run_cell

_HOMES = {
    "datasets": ("resolve",),
    "engine": ("ENGINES", "Summary", "run"),
    "grid": ("DATASETS", "MODELS", "SYSTEMS", "TRAININGS", "Cell", "cells", "groups"),
    "records": ("Record", "RecordError"),
    "trial": ("run_cell",),
}
_FOUND_AS = {"run_cell": "run"}  # where a name is another at home


def __getattr__(name: str):
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'diffnea.benchmark' has no attribute '{name}'")
    found = globals()[name] = getattr(_import_module(f"{__name__}.{home}"), _FOUND_AS.get(name, name))
    return found
