"""Which of several starts is carried on."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from diffnea import systems
from diffnea.actuators import Stribeck
from diffnea.identify.options import SolveOptions
from diffnea.identify.problem.measurements.equations import batch, equations
from diffnea.identify.problem.measurements.tracks import split
from diffnea.identify.problem.unknowns import unknowns
from diffnea.identify.solve.file_prior import file_prior
from diffnea.identify.solve.multistart import Task, _ranked, _settled, by_least_squares, by_race
from diffnea.identify.solve.solution import Solution, status_of
from diffnea.models import Model
from diffnea.recordings import Recording
from diffnea.simulate import rollout

BEHIND = SolveOptions().behind


def test_validation_chooses_between_starts_that_fit_about_as_well():
    assert _ranked(np.array([1.0, 1.1, 1.5]), np.array([3.0, 1.0, 2.0]), BEHIND).tolist() == [1, 2, 0]


def test_a_start_that_explains_nothing_is_not_chosen_however_calm_the_validation_data():
    # Measured on the real cart-pole: the minimum without a pole has five times the loss, and looks better at rest.
    assert _ranked(np.array([0.16, 0.77, 0.54]), np.array([0.3, 0.1, 0.2]), BEHIND)[0] == 0


def test_what_is_not_finite_comes_last_and_exact_fits_are_equals():
    loss, validation = np.array([np.inf, 1e-30, 1e-27, 2e-3]), np.array([0.0, 2.0, 1.0, np.nan])
    assert _ranked(loss, validation, BEHIND).tolist()[:2] == [2, 1]


def test_starts_that_were_stopped_on_the_way_do_not_agree():
    def run(loss, converged):
        return Solution(np.zeros((len(loss), 1)), np.array(loss), status_of(np.array(loss), np.array(converged)), ())

    assert _settled(run([0.16, 0.161, 0.7], [True, False, True]))
    assert not _settled(run([0.685, 0.687, 0.7], [False, False, False]))
    assert not _settled(run([0.16, 0.2, np.inf], [True, True, False]))


def _swing(robot):
    """A pendulum that swings out on a free cart, both with Stribeck friction."""
    friction = Stribeck.of(np.array([2.0, 0.02]), np.array([0.5, 0.004]), np.array([1.0, 0.002]), np.array([30.0, 0.5]))
    u = np.stack([8 * np.sin(np.arange(2500) * 0.02), np.zeros(2500)], 1)
    run = rollout(Model(robot, friction), jnp.asarray([0.0, 2.5]), jnp.zeros(2), u, 0.004)
    q = np.asarray(run.q) + 2e-5 * np.random.default_rng(0).standard_normal((2500, 2))
    return Recording(time=0.004 * np.arange(2500), q=q, u=u, joint_names=robot.joint_names)


def _task(free, robot, start, **more):
    """Accelerations of one swing, from one start."""
    recording, weight = _swing(robot), np.ones(2)
    parts = split([recording], [recording], robot.joint_names, 2, 0)
    given = {
        "train": batch(parts.train, 0, weight),
        "validation": batch(parts.validation, 0, weight),
        "rows": equations(parts.fitted, 0, weight),
        "whole": batch(parts.fitted, 0, weight),
        "prior": None,
        "options": SolveOptions(),
    }
    return Task("acceleration", free, starts=start[None], seed=0, **given | more)


def test_a_curve_that_the_race_has_lost_is_found_by_other_curves():
    robot = systems.cartpole().robot
    free = unknowns(robot, ("inertia",), "stribeck", jax.random.key(0))
    lost = np.where(["raw_shape" in label for label in free.labels], -60.0, free.start)  # no slope leads back
    task = _task(free, robot, lost)
    assert task.rows[0].low_pass is not None
    assert by_race(task).loss < 0.5 * by_race(replace(task, rough=True)).loss


def test_steps_bound_a_search_from_the_robot_file_too():
    robot = systems.cartpole().robot
    free = unknowns(robot, ("inertia",), "stribeck", jax.random.key(0))
    weight = np.ones(2)
    prior = file_prior(free, weight, SolveOptions())
    task = _task(free, robot, free.start, prior=prior, options=SolveOptions(iterations=4), torque=weight)
    short, long = by_least_squares(task), by_least_squares(replace(task, options=SolveOptions()))
    assert len(short.history) == 2 and not short.converged  # one round of evidence, and the end
    assert len(long.history) > 4 and long.converged and long.loss < short.loss
