"""When enough starts were tried: the rule against its own numbers, and against drawn basins."""

import numpy as np

from diffnea.identify.solve.stopping import distinct, expected_minima, unexplored


def test_ends_are_told_apart_from_the_best_on():
    assert distinct(np.log([1.0, 1.05, 1.1, 2.0, 2.1, 9.0]).tolist(), 0.2) == 3
    # A row of ends, each near the next, is more than one minimum.
    assert distinct(np.log(np.geomspace(1.0, 4.0, 40)).tolist(), 0.2) == 7
    assert distinct([np.inf, np.nan], 0.2) == 0


def test_numbers_of_the_rule():
    assert unexplored(1, 1) == 1.0 and unexplored(0, 0) == 1.0
    assert unexplored(5, 1) == 0.1 and unexplored(12, 3) == 12 / 132
    assert expected_minima(4, 2) == np.inf and expected_minima(12, 3) == 33 / 7


def test_the_expected_share_is_that_of_drawn_basins():
    """Basins as the rule's prior has them: their sizes uniform on the simplex, their number at least the ones seen."""
    rng, share, guess = np.random.default_rng(0), [], []
    for _ in range(4000):
        sizes = rng.dirichlet(np.ones(rng.integers(1, 40)))
        seen = np.unique(rng.choice(len(sizes), 15, p=sizes))
        if len(seen) <= 5:
            share.append(1 - sizes[seen].sum())
            guess.append(unexplored(15, len(seen)))
    assert abs(np.mean(share) - np.mean(guess)) < 0.02
