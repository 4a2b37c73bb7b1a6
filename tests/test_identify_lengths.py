"""Windows of several lengths in one loss: normal equations, lost lengths, and that no length is chosen."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffnea import systems
from diffnea.actuators import Stribeck
from diffnea.identify.options import TrajectoryOptions
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.identify.problem.unknowns import unknowns
from diffnea.identify.trajectory import chains
from diffnea.identify.trajectory.lengths import Lengths
from diffnea.identify.trajectory.stages import Fitter
from diffnea.models import Model
from diffnea.simulate import rollout

DT, STEP = 0.01, 1e-6
OPTIONS = TrajectoryOptions(horizons=(0.2, 0.4), iterations=8)


@pytest.fixture(scope="module")
def fitter():
    """A cart with dry friction that the fitted model lacks: windows of each length ask for another θ."""
    robot = systems.cartpole().robot
    time = DT * np.arange(400)
    u = np.stack([5 * np.sin(4 * time), np.zeros_like(time)], 1)
    truth = Model(robot, Stribeck.of(np.array([0.8, 0.002]), np.array([0.6, 0.001]), np.asarray(robot.damping)))
    run = rollout(truth, jnp.asarray([0.0, 0.4]), jnp.zeros(2), u, DT)
    q, qd = np.asarray(run.q), np.asarray(run.qd)
    track = Track("swing", DT, q, qd, np.zeros_like(q), u, q)
    free = unknowns(robot, ("inertia",), "viscous", jax.random.key(0))
    return Fitter(free, q.std(0), [track], free.start, OPTIONS)


def _windows(fitter):
    stage = fitter.all((0.2, 0.4), fitter.free.start)
    assert stage is not None and stage.windows is not None
    return stage


def test_slopes_of_the_mean_loss_are_those_of_finite_differences(fitter):
    stage = _windows(fitter)
    problem = stage.windows.least_squares
    point = np.concatenate([stage.theta + 1e-3, *(each.ravel() + 1e-4 for each in stage.starts)])[None]
    size, rng = fitter.free.size, np.random.default_rng(0)
    normal = problem.normal(point)
    np.testing.assert_allclose(normal.loss, problem.loss(point), rtol=1e-9)
    along = rng.standard_normal(size)
    # Each start follows θ: along that the slope is the reduced gradient, once starts have moved by themselves.
    own, follow, decrease = (part[0] for part in normal.eliminated)
    settled = point[0].copy()
    settled[size:] += own
    np.testing.assert_allclose(problem.loss(point) - problem.loss(settled[None]), decrease, rtol=0.05)
    moved = np.concatenate([along, follow @ along])
    there, back = (problem.loss(settled[None] + sign * STEP * moved)[0] for sign in (1, -1))
    np.testing.assert_allclose((there - back) / (2 * STEP), 2 * normal.gradient[0] @ along, rtol=0.02)


def test_each_window_of_each_length_has_its_own_start(fitter):
    stage = _windows(fitter)
    flat = np.concatenate([each.ravel() for each in stage.starts])
    assert all(np.array_equal(a, b) for a, b in zip(stage.windows.starts(flat), stage.starts, strict=True))
    assert len(stage.starts[0]) > len(stage.starts[1])


def test_a_length_of_which_all_windows_are_lost_does_not_count(fitter):
    stage = _windows(fitter)
    short, long = stage.windows.problems
    far = replace(long, shots=long.shots._replace(measured=long.shots.measured + 1e6))
    weighted = Lengths((short, far)).weighted(stage.theta, stage.starts, fitter.spread, OPTIONS)
    assert weighted is not None
    assert not weighted.problems[1].shots.weight.any() and weighted.problems[0].shots.weight.any()
    near = replace(short, shots=short.shots._replace(measured=short.shots.measured + 1e6))
    assert Lengths((near, far)).weighted(stage.theta, stage.starts, fitter.spread, OPTIONS) is None


def test_no_length_is_chosen_and_the_mean_loss_of_all_is_the_least(fitter):
    """Of two lengths that predict alike one was taken, and another after another draw of windows."""
    lengths = fitter.options.all_horizons
    single = [fitter.all((length,), fitter.free.start) for length in lengths]
    best = chains.chosen(fitter, [single[0]])
    assert best.lengths == lengths == (0.4, 0.8)
    assert best.windows is not None
    problem = best.windows.least_squares

    def loss(theta):
        """Of windows weighted as for the best, their starts following θ."""
        moved = np.concatenate([theta, *(each.ravel() for each in best.starts)])[None]
        eliminated = problem.normal(moved).eliminated
        assert eliminated is not None
        moved[0, len(theta) :] += eliminated.own[0]
        return problem.loss(moved)[0]

    assert all(loss(best.theta) <= loss(each.theta) for each in single)
    assert not np.allclose(single[0].theta, single[1].theta, atol=1e-3)
    shortest = single[0].linearised(("inertia",))
    np.testing.assert_array_equal(best.linearised(("inertia",)).segment, shortest.segment)
