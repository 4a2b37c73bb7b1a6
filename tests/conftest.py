"""Test settings: double precision, strict promotion, quick compiles."""

import os
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import jax
import pytest
from hypothesis import HealthCheck, settings

# Tests run each program once or twice: time goes into compiling, so ask XLA for quick code, not fast code. XLA reads
# this when it computes for the first time.
QUICK = ["--xla_backend_optimization_level=0", "--xla_llvm_disable_expensive_passes=true"]
if tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11):  # later ones do not know the flag, and abort
    QUICK.append("--xla_cpu_use_fusion_emitters=false")
os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *QUICK])

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# A first example compiles, later ones do not: no deadline. Derandomised, so that a run can be repeated.
settings.register_profile("diffnea", deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
settings.load_profile("diffnea")

# Linux ends a process that maps more than 65 530 pieces of memory, and each compiled program takes some.
MAPS, MANY_MAPS = Path("/proc/self/maps"), 30_000


@pytest.fixture(autouse=True)
def _drop_compiled_programs_before_there_are_too_many():
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MANY_MAPS:
        jax.clear_caches()


def pytest_terminal_summary(terminalreporter):
    """Print what tests recorded with `record_property("table: TITLE", [verdict, *cells])`, and count the verdicts."""
    tables: dict[str, list[list[str]]] = {}
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        for name, row in getattr(report, "user_properties", ()):
            if name.startswith("table: ") and report.when == "call":
                tables.setdefault(name.removeprefix("table: "), []).append([str(cell) for cell in row])
    for title, rows in sorted(tables.items()):
        terminalreporter.section(title)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in sorted(rows):
            terminalreporter.write_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
        counts = Counter(row[0] for row in rows)
        terminalreporter.write_line(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
