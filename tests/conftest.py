"""Test settings: double precision, strict promotion, quick compiles."""

import gc
import os
import signal
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

# In the background of a shell Ctrl-C is ignored, and would be by the processes that tests send one to.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Compiling leaves many objects that stay: garbage is looked for among them less often than usual.
gc.set_threshold(50_000, 20, 20)

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# A first example compiles, later ones do not: no deadline. Derandomised, so that a run can be repeated.
settings.register_profile("diffnea", deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
settings.register_profile("fresh", deadline=None, suppress_health_check=list(HealthCheck))  # nightly: other examples
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "diffnea"))

# Linux ends a process that maps more than 65 530 pieces of memory, and each compiled program takes some.
MAPS, MANY_MAPS = Path("/proc/self/maps"), 30_000


@pytest.fixture(autouse=True)
def _drop_compiled_programs_before_there_are_too_many():
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MANY_MAPS:
        jax.clear_caches()


# Which tests `-m` chooses, by how the names of their files begin; the longest beginning counts.
MARKERS = {
    "unit": "test_cli_process test_errors test_files test_text test_xml_text test_recordings_bad test_recordings_files "
    "test_cli_outputs test_cli_formulas test_cli_completion",
    "laws": "test_dynamics test_rollout test_models test_actuators test_parameters test_systems test_robot test_mjcf "
    "test_urdf test_formats test_kernels test_accuracy test_numbers",
    "fits": "test_fit test_identify test_identifiability test_cases test_parameters_learned test_cli_fit "
    "test_cli_payload",
    "pages": "test_report test_pages",
}


def pytest_collection_modifyitems(items):
    beginnings = {begin: name for name, words in MARKERS.items() for begin in words.split()}
    for item in items:
        fitting = [begin for begin in beginnings if item.path.stem.startswith(begin)]
        if fitting:
            item.add_marker(beginnings[max(fitting, key=len)])


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
