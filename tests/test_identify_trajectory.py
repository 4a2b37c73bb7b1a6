"""The trajectory loss: weights that mind the usual window, moderate steps, and a choice that does not flip."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffnea import systems
from diffnea.actuators import Stribeck
from diffnea.batches import mass_matrix
from diffnea.identify import fit
from diffnea.identify.judge.windows import samples
from diffnea.identify.options import TrajectoryOptions
from diffnea.identify.problem.least_squares import Quadratic
from diffnea.identify.problem.measurements.tracks import Split, Track
from diffnea.identify.problem.unknowns import unknowns
from diffnea.identify.solve.friction_starts import with_other_friction
from diffnea.identify.solve.levenberg_marquardt import minimise
from diffnea.identify.solve.task import Found
from diffnea.identify.trajectory import chains
from diffnea.identify.trajectory.rollout_errors import RolloutErrors
from diffnea.identify.trajectory.shooting import Shooting, shots, side_by_side
from diffnea.identify.trajectory.stages import Fitter, Stage
from diffnea.identify.trajectory.window_weights import weights
from diffnea.models import Model
from diffnea.recordings import Recording
from diffnea.simulate import rollout

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


def test_errors_of_any_time_and_of_usual_windows_decide():
    rng = np.random.default_rng(0)
    growth = np.linspace(0.01, 1, 50)[:, None, None] ** 2
    wrong = 1e-3 * growth * rng.standard_normal((1, 40, 2))
    wrong[:, 0] *= 300  # past an unstable pose
    wrong[:, 1] = 2 * TrajectoryOptions().lost
    wrong[10, 2] = np.nan
    found = weights(wrong, np.ones(2), TrajectoryOptions())
    assert found is not None
    assert not found[:, 1:3].any() and (found[:, 3:] > 0).all()
    counted = np.square(found[:, 3:] * wrong[:, 3:]).mean((1, 2))
    assert counted[25] > 0.02 * counted[-1]  # 0.004 without weights that grow weaker
    size = np.square(found * np.nan_to_num(wrong)).mean((0, 2))
    assert size[0] < 3 * np.median(size[3:])  # 90 000 times as much without weights
    assert weights(np.full((3, 2, 2), np.nan), np.ones(2), TrajectoryOptions()) is None


def test_steps_are_moderate_and_what_is_not_determined_stays(swings):
    system = systems.cartpole()
    free = unknowns(system.robot, ("inertia",), "stribeck", jax.random.key(0))
    run = rollout(rubbing(system.robot), jnp.asarray([0.0, 0.4]), jnp.zeros(2), swings[0].u, 0.004)
    q, qd = np.asarray(run.q), np.asarray(run.qd)
    cut = shots([Track("swing", 0.004, q, qd, q, swings[0].u, q)], free, 63, np.full(2, 1e-3), np.full(4, 1e-3))
    assert cut is not None
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
    assert cut is not None
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


class Landscape(Fitter):
    """Chains whose stages have given errors, a row a chain, whatever they begin with."""

    errors: Sequence[Any]
    taken: np.ndarray  # so many stages of each

    def __init__(self, errors, horizons=(1.0,)):
        taken = np.zeros(len(errors), int)
        vars(self).update(errors=errors, taken=taken, options=TrajectoryOptions(horizons=horizons))

    def start(self, theta, loss=np.inf):
        return Stage((), theta, 0.0, np.full(1, 9.0))

    def few(self, length, theta, seed):
        _, chain, stage = seed
        if not len(self.errors):
            return None
        self.taken[chain] += 1
        return Stage((length,), theta, 0.0, np.log([np.broadcast_to(self.errors[chain], 4)[stage]]))


def test_chains_run_until_no_new_minimum_is_expected():
    one = chains.race(Landscape([1.0, 1.05] * 20), [np.zeros(1)] * 30, 0)
    three = chains.race(Landscape([1.0, 2.0, 4.0, 1.05] * 20), [np.zeros(1)] * 30, 0)
    never = chains.race(Landscape(np.geomspace(1, 1e9, 30)), [np.zeros(1)] * 12, 0)
    assert chains.race(Landscape([]), [], 0).ends == ()
    assert [len(each.ends) for each in (one, three, never)] == [7, 17, 12]
    assert 2 / (7 * 6) < TrajectoryOptions().unexplored <= 2 / (6 * 5)
    assert [np.exp(end.error) for end in three.best] == pytest.approx([1.0, 2.0, 4.0])
    assert three.note.values["minima"] == 3


def test_a_chain_that_has_come_to_the_best_minimum_so_far_goes_no_further():
    """Its later stages would only find once more what all data are fitted from; one elsewhere goes on to the end."""
    horizons = (0.5, 1.0, 1.0, 1.0)
    rows = [[9.0, 1.05, 1.0, 1.0], [9.0, 2.0, 1.5, 1.02], [0.5, 0.5, 0.5, 0.5], [1.0, 1.0, 1.0, 1.0]]
    fitter = Landscape(rows, horizons)
    for chain in range(4):
        chains.run_chain(fitter, np.zeros(1), (0, chain), known=0.0)
    assert fitter.taken.tolist() == [2, 4, 4, 2]
    fitter = Landscape([1.0, 1.0, [1.0, 0.5, 0.4, 0.3], 0.3, 1.0], horizons)
    ran = chains.race(fitter, [np.zeros(1)] * 5, 0)
    assert fitter.taken.tolist() == [4, 2, 4, 2, 4]  # a better end is another minimum, and known from then on
    assert np.exp(ran.best[0].error) == pytest.approx(0.3)


def test_a_chain_that_has_no_windows_ends_where_it_began():
    assert chains.run_chain(Landscape([]), np.ones(2), (0, 0)).lengths == ()


def test_friction_is_drawn_for_the_start_that_predicts_best(monkeypatch, swings):
    """Beside a gain that is far off no friction leads anywhere, and a race would see one minimum only."""
    free = unknowns(systems.cartpole().robot, ("inertia", "actuator"), "gain+stribeck", jax.random.key(0))
    gain = next(k for k, label in enumerate(free.labels) if "gain 0" in label)
    near, far, raced = np.array(free.start), np.array(free.start), []
    far[gain] = 300.0
    q, u = swings[0].q, swings[0].u
    track = Track("swing", 0.004, q, q, q, u, q)

    def started(fitter, theta, loss=np.inf):
        return Stage((), theta, loss, np.full(1, -4.0 if theta[gain] == near[gain] else 1.4))

    def race(fitter, starts, seed):
        raced.append(starts)
        return chains.Race((started(fitter, near),), 3, 0.1)

    monkeypatch.setattr(Fitter, "start", started)
    monkeypatch.setattr(chains, "race", race)
    monkeypatch.setattr(chains, "chosen", lambda fitter, finalists: finalists[0])
    parts = Split((track,), (), (track,), (), (), "")
    for found, given in ((near, far), (far, near)):
        chains.improve(Found(found, 0.0, (), True, (), ()), free, parts, np.ones(2), (given,), 0, TrajectoryOptions())
    for starts in raced:
        assert len(starts) == chains.MOST_STARTS
        assert all(start[gain] == near[gain] for start in starts[2:])
        assert not np.array_equal(starts[2], starts[3])


def test_a_difference_counts_when_it_is_more_than_its_standard_error(swings):
    free = unknowns(systems.cartpole().robot, ("inertia",), "stribeck", jax.random.key(0))
    q, u = swings[0].q, swings[0].u
    track = Track("swing", 0.004, q, np.gradient(q, 0.004, axis=0), q, u, q)
    judge = RolloutErrors(free, np.std(q, axis=0), [track])
    errors = judge.of(free.start)
    assert np.isfinite(errors).all() and judge.independent <= len(errors)
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(errors.shape)
    noise -= noise.mean()
    assert judge.clearly_worse(errors + 0.1, errors)
    assert not judge.clearly_worse(errors + 0.1 + noise, errors)
    assert not judge.clearly_worse(errors - 0.1, errors)


def _fitter(swings, **options):
    free = unknowns(systems.cartpole().robot, ("inertia",), "stribeck", jax.random.key(0))
    tracks = []
    for one in swings:
        qd = np.gradient(one.q, 0.004, axis=0)
        tracks.append(Track("swing", 0.004, one.q, qd, np.zeros_like(qd), one.u, one.q))
    return Fitter(free, np.std(swings[0].q, axis=0), tracks, free.start, TrajectoryOptions(**options))


def test_another_seed_draws_other_windows_and_starts_and_the_same_seed_the_same(swings):
    fitter = _fitter(swings, windows=8, iterations=2)
    stages = [
        fitter.few(0.25, fitter.free.start, seed) for seed in ((0, 1, 2), (0, 1, 2), (1, 1, 2), (0, 2, 2), (0, 1, 3))
    ]
    places = [stage.windows.problems[0].shots.x0 for stage in stages if stage is not None and stage.windows is not None]
    assert len(places) == len(stages)
    np.testing.assert_array_equal(places[0], places[1])
    assert all(not np.array_equal(places[0], other) for other in places[2:])
    thetas = [stage.theta for stage in stages if stage is not None]
    np.testing.assert_array_equal(thetas[0], thetas[1])
    drawn = [np.stack(with_other_friction(fitter.free, fitter.free.start, 3, seed)) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert all(not np.array_equal(one, other) for one, other in zip(drawn[0], drawn[2], strict=True))


@pytest.mark.slow
def test_a_fit_follows_its_seed_bit_for_bit(swings):
    robot = systems.cartpole().robot
    heavy = replace(robot, inertia=jax.tree.map(lambda leaf: 1.3 * leaf, robot.inertia))
    how: dict[str, Any] = dict(actuator="stribeck", loss="trajectory", method="lm", test=swings)
    first, again, other = (fit(heavy, swings, seed=seed, **how) for seed in (0, 0, 1))
    leaves = [[np.asarray(leaf) for leaf in jax.tree.leaves(each.model)] for each in (first, again, other)]
    assert all(np.array_equal(a, b) for a, b in zip(leaves[0], leaves[1], strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(leaves[0], leaves[2], strict=True))
