"""The paper's benchmark: 26 models, two systems, three data sets; records on disk, local or on a Ray cluster."""

from diffnea.benchmark.datasets import resolve
from diffnea.benchmark.engine import ENGINES, Summary, run
from diffnea.benchmark.grid import DATASETS, MODELS, SYSTEMS, TRAININGS, Cell, cells, groups
from diffnea.benchmark.records import Record, RecordError
