"""The verdict: divergence counts where the start has none, and where it has some, beyond chance."""

import pytest

from diffnea.identify.scoring import Score
from diffnea.identify.verdict import Metrics, judge


def score(error, diverged):
    return Score(0.1, (0.1,), (0.5,), (error,), ((error,),), 1.0, diverged, 128)


@pytest.mark.parametrize(
    ("lost", "before", "word"),
    [
        (0, 0, "accepted"),
        (1, 0, "no better than the start"),
        (14, 11, "accepted"),
        (9, 11, "accepted"),
        (18, 11, "no better than the start"),
    ],
)
def test_roll_outs_that_diverge(lost, before, word):
    verdict = judge(Metrics(score(0.1, lost), score(0.2, before), score(1.0, 0), score(1.0, 0)), [], [], ["joint"])
    assert verdict == word
    assert any("roll-outs diverge" in reason for reason in verdict.reasons) == (lost > before)
