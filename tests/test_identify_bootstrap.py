"""Block bootstrap: bounds shrink with more data, hold at their rate, and know that neighbours say the same."""

import numpy as np
from scipy.signal import lfilter

from diffnea.identify.judge.bootstrap import blocks, mean_bound
from diffnea.identify.options import JudgeOptions

OPTIONS = JudgeOptions()


def series(count, seed, memory=0.6):
    """A first-order process of mean zero, a value each quarter of a second."""
    rng = np.random.default_rng(seed)
    return lfilter([1.0], [1.0, -memory], rng.standard_normal(count + 50))[50:]


def bound(values, files=2):
    segment = np.arange(len(values)) * files // len(values)
    time = 0.25 * np.arange(len(values))
    return mean_bound(values, blocks(segment, time, OPTIONS.least_blocks), OPTIONS)


def test_bounds_shrink_with_more_windows():
    widths = [np.mean([np.ptp(bound(series(n, seed))[1:]) for seed in range(20)]) for n in (64, 256, 1024)]
    assert widths[0] > 1.5 * widths[1] > 2.25 * widths[2]


def test_bounds_of_correlated_values_hold():
    """Of 70 intervals at 95 %; independent draws would give 60 %."""
    held = [low <= 0 <= high for _, low, high in (bound(series(400, seed)) for seed in range(70))]
    assert np.mean(held) > 0.85
    single = [mean_bound(series(400, seed), np.arange(400), OPTIONS) for seed in range(70)]
    assert np.mean([low <= 0 <= high for _, low, high in single]) < 0.7


def test_blocks_stay_within_a_recording_and_are_enough():
    segment, time = np.repeat([0, 1, 4], [100, 30, 4]), np.concatenate([0.25 * np.arange(n) for n in (100, 30, 4)])
    block = blocks(segment, time, 8)
    assert np.all(np.diff(block) >= 0) and set(block) == set(range(block.max() + 1))
    assert all(len(set(segment[block == k])) == 1 for k in set(block))
    assert len(set(blocks(np.zeros(20, int), 0.01 * np.arange(20), 8))) == 8  # short: as many as asked for
    assert len(set(blocks(np.zeros(3, int), 0.01 * np.arange(3), 8))) == 3


def test_one_window_says_nothing():
    assert bound(np.array([-5.0]), files=1) == (-5.0, -np.inf, np.inf)
