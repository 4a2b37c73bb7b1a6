"""Commands that come late: of held ones the mean over a sample, of smooth ones what they are between samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffnea.simulate.delay import smooth_weights, weights

MOST = 8
DELAYS = np.array([0.0, 0.3, 1.0, 1.306, 4.5, 7.01, 8.0])


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def arrived(of, shares):
    """What arrives of a signal of the samples' number, by shares of its past; the last sample is 0."""
    return np.asarray(of(-np.arange(MOST + 1.0)) @ np.asarray(shares(jnp.asarray(DELAYS), MOST)))


@pytest.mark.parametrize("power", [0, 1, 2])
def test_parabolas_come_as_they_are(power):
    np.testing.assert_allclose(arrived(lambda k: k**power, smooth_weights), (-DELAYS) ** power, atol=1e-12)


def test_waves_come_late_and_as_large_as_they_are():
    """Two neighbours in proportion flatten them, by f (1 − f) ω² / 2; four do not, to third order."""
    rate = 0.1
    wave = np.cos(rate * DELAYS)
    fraction = DELAYS % 1
    flat = arrived(lambda k: np.cos(rate * k), weights) / wave
    np.testing.assert_allclose(flat, 1 - fraction * (1 - fraction) * rate**2 / 2, atol=2e-5)
    np.testing.assert_allclose(arrived(lambda k: np.cos(rate * k), smooth_weights), wave, atol=rate**3)
    inner = (DELAYS >= 1) & (DELAYS <= MOST - 1)
    np.testing.assert_allclose(
        arrived(lambda k: np.cos(rate * k), smooth_weights)[inner], wave[inner], atol=0.1 * rate**3
    )


def test_a_delay_can_be_learned_across_samples():
    """The slope of what arrives has no step where the delay passes a sample."""
    past = jnp.sin(0.7 * jnp.arange(MOST + 1.0))
    slope = jax.grad(lambda delay: (past @ smooth_weights(delay[None], MOST))[0])
    for whole in range(1, MOST):
        assert slope(jnp.asarray(whole - 1e-9)) == pytest.approx(float(slope(jnp.asarray(whole + 1e-9))), abs=1e-7)


def test_one_sample_of_past_is_interpolated_by_two():
    delay = jnp.array([0.0, 0.25, 1.0])
    np.testing.assert_array_equal(smooth_weights(delay, 1), weights(delay, 1))
