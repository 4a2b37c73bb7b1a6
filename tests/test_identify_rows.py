"""Rows: the low-pass of equations, what of several recordings it uses, and pieces that add up to the whole."""

import jax.numpy as jnp
import numpy as np
import pytest

from diffnea.identify.problem.measurements.rows import Batch, LowPass, Rows, filtered, plain, taps_of, through

LAW = 1e-10


def batch(count: int, n: int = 2) -> Batch:
    rng = np.random.default_rng(0)
    return Batch(*rng.normal(size=(3, count, n)), rng.normal(size=(count, 1, n)), np.ones((count, n)))


def low_passed(values: np.ndarray, corner: float) -> np.ndarray:
    taps = taps_of(corner)
    count = len(values) // taps.shape[1] * taps.shape[1]
    rows = filtered(batch(count, 1), [count], 0.01, taps)
    return np.asarray(through(rows.low_pass, jnp.asarray(values[:count, None])))[:, 0]


@pytest.mark.parametrize("corner", [0.05, 0.3, 1.2])
def test_filtered_rows_are_a_convolution_that_is_thinned_out(corner):
    values, taps = np.random.default_rng(1).normal(size=600), taps_of(corner)
    whole = np.convolve(values, taps.ravel()[::-1], "valid")[:: taps.shape[1]]
    found = low_passed(values, corner)
    np.testing.assert_allclose(found, whole[: len(found)], atol=LAW)
    assert len(whole) - len(found) <= 1


@pytest.mark.parametrize("corner", [0.05, 0.3, 1.0])
def test_slow_waves_pass_and_fast_ones_do_not_come_back_as_slow_ones(corner):
    time = np.arange(4000)
    assert np.abs(low_passed(np.ones(4000), corner) - 1).max() < LAW
    slow, fast = (low_passed(np.sin(factor * corner * time), corner) for factor in (0.4, 1.7))
    assert np.sqrt(2) * slow.std() == pytest.approx(1, abs=0.03)
    assert fast.std() < 0.01
    assert taps_of(corner).shape[1] * corner * 1.5 <= np.pi or taps_of(corner).shape[1] == 1


def test_no_row_reaches_over_two_recordings():
    taps = np.full((3, 4), 1 / 12)
    rows = filtered(batch(20 + 8 + 16), [20, 8, 16], 0.01, taps)
    # The first has five blocks, so three rows; the second is too short for any; the third has two.
    assert rows.weight[:, 0].tolist() == [1, 1, 1, 0, 0, 0, 0, 1, 1]
    kept = rows.weight.any(axis=1)
    assert rows.segment[kept].tolist() == [0, 0, 0, 2, 2] and rows.sample[kept].tolist() == [0, 1, 2, 0, 1]
    assert rows.count == 10 and rows.dt == pytest.approx(0.04)


def squares(rows: Rows, most: int) -> float:
    pieces = rows.pieces(most)
    assert len({len(piece.q) for piece, _ in pieces}) == 1
    found = [through(low_pass, jnp.asarray(piece.qdd * piece.weight)) for piece, low_pass in pieces]
    return float(sum(np.sum(np.square(each)) for each in found))


@pytest.mark.parametrize("taps", [None, np.full((3, 4), 1 / 12)])
def test_pieces_add_up_to_the_whole(taps):
    data = batch(48 + 40)
    rows = plain(data, [48, 40], 0.01) if taps is None else filtered(data, [48, 40], 0.01, taps)
    rows = rows.weighted(np.random.default_rng(2).uniform(size=rows.weight.shape))
    whole = through(rows.low_pass, jnp.asarray(data.qdd * rows.batch.weight))
    assert squares(rows, 10_000) == pytest.approx(float(np.sum(np.square(whole))))
    for most in (30, 17):
        assert squares(rows, most) == pytest.approx(squares(rows, 10_000))


def test_other_weights_of_joints_keep_the_rows():
    rows = filtered(batch(48), [24, 24], 0.01, np.full((3, 4), 1 / 12)).scaled(np.array([2.0, 3.0]))
    assert isinstance(rows.low_pass, LowPass) and np.all(rows.batch.weight == [2.0, 3.0])
    assert set(np.unique(rows.weight)) == {0.0, 1.0}
