"""The trajectory loss: weights that mind the usual window, moderate steps, and a choice that does not flip."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffnea import systems
from diffnea.actuators import Stribeck
from diffnea.batches import mass_matrix
from diffnea.identify import fit
from diffnea.identify.judge.windows import samples
from diffnea.identify.problem.least_squares import Quadratic
from diffnea.identify.problem.tracks import Track
from diffnea.identify.problem.unknowns import unknowns
from diffnea.identify.solve.levenberg_marquardt import minimise
from diffnea.identify.trajectory import chains as trajectory
from diffnea.identify.trajectory.chains import ONE_IN, _seen
from diffnea.identify.trajectory.shooting import Shooting, shots, side_by_side
from diffnea.identify.trajectory.window_weights import LOST, weights
from diffnea.models import Model
from diffnea.recordings import Recording
from diffnea.rollout import rollout

ENCODER = np.array([2e-5, 2 * np.pi / 4096])
# Two fits of the same motion agree to this share, and their roll-outs to this share of the motion, where noise begins.
SAME, NOISE = 0.05, 5e-4


def rubbing(robot):
    """A model whose joints stick."""
    return Model(robot, Stribeck.of(np.array([0.5, 0.002]), np.array([0.4, 0.001]), np.asarray(robot.damping)))


@pytest.fixture(scope="module")
def swings():
    """Two chirps of a cart with dry friction, read by encoders; half a sample decides how long 0.25 s are."""
    system, dt = systems.cartpole(), 0.004
    time = dt * np.arange(750)
    found = []
    for sign in (1, -1):
        u = np.stack([sign * 5 * np.sin(2 * np.pi * time * (3 - 0.6 * time)), np.zeros_like(time)], 1)
        run = rollout(rubbing(system.robot), jnp.asarray([0.0, 0.4]), jnp.zeros(2), u, dt)
        q = np.round(np.asarray(run.q) / ENCODER) * ENCODER
        found.append(Recording(time=time, q=q, u=u, joint_names=system.robot.joint_names))
    return found


@pytest.mark.parametrize("dt", [0.004, np.nextafter(0.004, 1), np.nextafter(0.004, 0)])
def test_the_last_digit_of_a_step_decides_nothing(dt):
    assert samples(0.25, dt) == 63 and samples(0.1, dt) == 25 and samples(1.0, dt) == 250


def test_blocks_apart_are_spread_over_the_recordings_and_never_seen():
    def track(name, count, first):
        q = np.arange(first, first + count, dtype=float)[:, None]
        return Track(name, 0.01, q, q, q, q, q)

    blocks = _seen([track("long", 2000, 0), track("short", 100, 2000), track("middle", 900, 2100)])
    seen = np.concatenate([block.q[:, 0] for block in blocks])
    assert len(set(seen)) == len(seen) and set(seen) < set(range(3000))
    apart = np.array(sorted(set(range(3000)) - set(seen)))
    assert 0.15 < len(apart) / 3000 < 1 / ONE_IN + 0.05
    assert apart.min() < 1000 and apart.max() > 2100


def test_errors_of_any_time_and_of_usual_windows_decide():
    rng = np.random.default_rng(0)
    growth = np.linspace(0.01, 1, 50)[:, None, None] ** 2
    wrong = 1e-3 * growth * rng.standard_normal((1, 40, 2))
    wrong[:, 0] *= 300  # past an unstable pose
    wrong[:, 1] = 2 * LOST  # lost
    wrong[10, 2] = np.nan
    found = weights(wrong, np.ones(2))
    assert not found[:, 1:3].any() and (found[:, 3:] > 0).all()
    counted = np.square(found[:, 3:] * wrong[:, 3:]).mean((1, 2))
    assert counted[25] > 0.02 * counted[-1]  # 0.004 without weights that grow weaker
    size = np.square(found * np.nan_to_num(wrong)).mean((0, 2))
    assert size[0] < 3 * np.median(size[3:])  # 90 000 times as much without weights
    assert weights(np.full((3, 2, 2), np.nan), np.ones(2)) is None


def test_steps_are_moderate_and_what_is_not_determined_stays(swings):
    system = systems.cartpole()
    free = unknowns(system.robot, ("inertia",), "stribeck", jax.random.key(0))
    run = rollout(rubbing(system.robot), jnp.asarray([0.0, 0.4]), jnp.zeros(2), swings[0].u, 0.004)
    q, qd = np.asarray(run.q), np.asarray(run.qd)
    cut = shots([Track("swing", 0.004, q, qd, q, swings[0].u, q)], free, 63, np.full(2, 1e-3), np.full(4, 1e-3))
    problem = Shooting(free, cut, cut.measured.size)
    unit = np.maximum(1.0, np.abs(free.start))
    whole = problem.least_squares.with_prior(Quadratic(free.start, 10 / problem.rows / unit**2), free.size)
    point = np.r_[free.start, cut.x0.ravel()][None]
    first, last = (minimise(whole, point, count, unit=unit, rough=2e-3) for count in (1, 30))
    assert last.loss < 0.5 * first.loss < 0.5 * problem.loss(free.start, cut.x0)
    assert np.abs((first.theta[0] - free.start) / unit).max() <= 1.0
    still = [k for k, label in enumerate(free.labels) if "cart log-cholesky centre" in label]
    np.testing.assert_allclose(last.theta[0, still], free.start[still], atol=1e-6)
    assert last.eliminated is not None and last.eliminated.shape == (1, cut.x0.size)


def test_windows_of_several_rates_keep_their_own(swings):
    free = unknowns(systems.cartpole().robot, ("inertia",), "stribeck", jax.random.key(0))
    q, u = swings[0].q, swings[0].u
    tracks = [Track(f"{dt}", dt, q, q, q, u, q) for dt in (0.002, 0.004)]
    cut = shots(tracks, free, 100, np.ones(2), np.ones(4))
    assert sorted(set(cut.dt)) == [0.002, 0.004]
    assert len(cut.dt) == 2 * (7 + 6 + 7 + 6) and len(side_by_side(tracks, 100)) == 2 * 7


@pytest.mark.slow
def test_time_stamps_that_differ_in_the_last_digit_give_the_same_fit(swings):
    robot = systems.cartpole().robot
    heavy = replace(robot, inertia=jax.tree.map(lambda leaf: 1.3 * leaf, robot.inertia))
    moved = [one.replace(time=one.time * (1 + 2e-16) + 1e-15 * (np.arange(len(one)) % 3)) for one in swings]
    fits = [
        fit(heavy, data, actuator="stribeck", loss="trajectory", method="lm", test=swings) for data in (swings, moved)
    ]
    q = jnp.asarray([0.0, 0.5])
    first, second = (np.asarray(mass_matrix(each.robot, q)) for each in fits)
    np.testing.assert_allclose(first, second, rtol=SAME)
    np.testing.assert_allclose(fits[0].metrics.fit.error, fits[1].metrics.fit.error, rtol=SAME, atol=NOISE)
    np.testing.assert_allclose(first, mass_matrix(robot, q), rtol=0.1)
    assert fits[0].notes[-1] == fits[1].notes[-1]


def test_chains_run_until_several_have_come_to_about_the_best_place(monkeypatch):
    """One lucky chain is no reason to stop, and agreement is no reason to go on."""
    errors = iter([3.0, 1.0, 2.0, 2.05, 2.1, 1.05, 9.0, 1.02, 0.1, 0.1])

    def ended(error):
        judge = SimpleNamespace(error=lambda theta: float(theta[0]))
        return trajectory._Stage(0.5, np.array([error]), cast(Any, judge), 0.0)

    class Trial:
        ran = 0

        def chain(self, horizons, theta, tracks, effort):
            if horizons == trajectory.HORIZONS[-1:]:
                return [ended(theta[0] + 1)]
            Trial.ran += 1
            return [ended(next(errors))]

    monkeypatch.setattr(trajectory, "LEAST_CHAINS", 4)
    best = trajectory._race(cast(Any, Trial()), [np.zeros(1)] * 10, [])
    assert Trial.ran == 8 and [stage.error for stage in best] == [1.0, 2.0]
