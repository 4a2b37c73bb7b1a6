"""Wrong set-ups of benchmarks/outside: their order, and which of them predict fresh logs."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.outside.families import FAMILIES  # noqa: E402
from benchmarks.outside.mistakes import MISTAKES, NO_MISTAKES  # noqa: E402
from benchmarks.outside.wrong import RIGHT, WRONG, named, predicts, run, setups  # noqa: E402


def test_a_run_that_is_cut_short_has_every_mistake_and_as_many_right_set_ups():
    every = setups(400)
    some = list(every)[: len(WRONG) + 2 * len(MISTAKES)]
    wrong = [key for key in some if not key.startswith("right/")]
    assert {key.split("/")[0] for key in wrong} == {*MISTAKES} and len(wrong) == len(MISTAKES)
    machines = [key.split("/")[1] for key in wrong]
    assert max(map(machines.count, machines)) - min(map(machines.count, machines)) <= 1
    assert all(some.index(f"right/{key.split('/')[1]}") < some.index(key) for key in wrong)
    assert len(every) == len(WRONG) * len(MISTAKES) - len(NO_MISTAKES) + RIGHT * len(FAMILIES)


def test_only_what_is_compared_predicts_a_fresh_log():
    every = setups(400)
    assert predicts("degrees/rpr_400", "accepted", every) and not predicts("degrees/rpr_400", "failed", every)
    assert predicts("right/rpr_400", "failed", every) and not predicts("right/rpr_401", "accepted", every)
    assert not predicts("right/arm6_400", "accepted", every)


@pytest.mark.parametrize("key", ["axis_turned/rpr_700", "clock_doubled/rpr_700"])
def test_a_mistake_that_a_position_dependent_torque_stands_in_for_is_named(key):
    """With the mistake undone plain parts are as good as all parts with it."""
    found = run(key, setups(700))
    assert found["verdict"] == "failed" and named(found, key.split("/")[0])
