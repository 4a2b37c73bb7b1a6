"""The robot file as a prior: a distance between bodies, its slopes, and what it leaves alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffnea import systems
from diffnea.identify.problem.parameter import places
from diffnea.identify.problem.prior import Prior, prior
from diffnea.identify.problem.unknowns import Unknowns, unknowns
from diffnea.parameters import with_reference_bodies


@pytest.fixture(scope="module")
def free() -> Unknowns:
    return unknowns(systems.furuta().robot, ("inertia", "armature"), "stribeck", jax.random.key(0))


@pytest.fixture(scope="module")
def near_file(free) -> Prior:
    positive = np.array([each.positive for each in free.parameters], bool)
    body = places(free.parameters, kind="inertia").reshape(-1, 10)
    pair = [places(free.parameters, part="Stribeck", leaf=leaf) for leaf in ("raw_static", "raw_kinetic")]
    return prior(free.start, np.full(free.size, 3.0), positive, np.stack(pair, 1), body, 10.0)


def pseudo(robot, link):
    J = np.asarray(robot.inertia.rotational_matrix)[link]
    first = np.asarray(robot.inertia.first_moment)[link][:, None]
    second = np.trace(J) / 2 * np.eye(3) - J
    return np.block([[second, first], [first.T, np.asarray(robot.inertia.mass)[link].reshape(1, 1)]])


def test_the_file_itself_costs_nothing(free, near_file):
    found = near_file.normal(free.start[None])
    assert found.loss[0] == 0
    np.testing.assert_array_equal(found.gradient[0], 0)


def test_slopes_meet_central_differences(free, near_file):
    theta = free.start + 0.05 * np.random.default_rng(0).normal(size=(2, free.size))
    found = near_file.normal(theta)
    for k in range(free.size):
        step = 1e-6 * np.eye(free.size)[k]
        ends = [near_file.normal(theta + sign * step).loss for sign in (1, -1)]
        np.testing.assert_allclose(found.gradient[:, k], (ends[0] - ends[1]) / 4e-6, rtol=1e-4, atol=1e-5)


def test_the_distance_is_geodesic_to_second_order():
    free = unknowns(with_reference_bodies(systems.furuta().robot), ("inertia",), "ideal", jax.random.key(0))
    body = places(free.parameters, kind="inertia").reshape(-1, 10)
    none = np.zeros(free.size, bool), np.zeros((0, 2), int)
    solid = prior(free.start, np.full(free.size, 3.0), *none, body, 10.0)
    step = np.random.default_rng(1).normal(size=10) * np.array([1.0] * 4 + [0.01] * 6)
    for size, bound in ((1e-2, 0.05), (1e-3, 0.005)):
        theta = free.start.copy()
        theta[body[1]] += size * step
        was, now = (pseudo(free.model(jnp.asarray(each)).robot, 1) for each in (free.start, theta))
        geodesic = np.sum(np.log(np.linalg.eigvals(np.linalg.solve(was, now)).real) ** 2)
        assert abs(solid.distances(theta)[1] - geodesic) < bound * geodesic


def test_static_friction_keeps_its_ratio_to_kinetic(free, near_file):
    both = near_file.tied[0]
    theta = free.start.copy()
    shift = np.log(np.expm1(2 * np.logaddexp(0, theta[both])))  # both twice as large
    theta[both] = shift
    alone = free.start.copy()
    alone[both[0]] = shift[0]
    together = near_file.normal(theta[None]).loss[0] - near_file.normal(free.start[None]).loss[0]
    np.testing.assert_allclose(together, near_file.precision[both[1]] * np.log(2) ** 2, rtol=1e-6)
    assert near_file.normal(alone[None]).loss[0] == pytest.approx(near_file.precision[both[0]] * np.log(2) ** 2)


def test_parameters_say_what_each_number_is(free):
    kinds = {each.kind for each in free.parameters}
    assert kinds == {"inertia", "armature", "actuator"}
    static = places(free.parameters, part="Stribeck", leaf="raw_static")
    assert [free.parameters[k].owner for k in static] == [0, 1]
    assert all(free.parameters[k].positive for k in static)
    moved = free.start.copy()
    moved[static[1]] += 1.0
    before, after = (free.model(jnp.asarray(each)).actuator.static for each in (free.start, moved))
    assert before[0] == after[0] and before[1] < after[1]
