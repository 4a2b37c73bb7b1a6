"""Levenberg-Marquardt: known minima, unknown directions that stay, and starts that are no use."""

import numpy as np

from diffnea.identify.problem.least_squares import Eliminated, Normal, Problem, Quadratic
from diffnea.identify.solve.levenberg_marquardt import minimise
from diffnea.identify.solve.solution import Solution, Status


def problem(residual, jacobian):
    """A problem of one θ, for many."""

    def normal(theta):
        r, J = np.stack([residual(t) for t in theta]), np.stack([jacobian(t) for t in theta])
        count = r.shape[1]
        return Normal((r * r).mean(1), np.einsum("srp,sr->sp", J, r) / count, np.einsum("srp,srq->spq", J, J) / count)

    rows = len(residual(np.ones(2)))
    return Problem(lambda theta: np.stack([np.mean(residual(t) ** 2) for t in theta]), normal, rows)


def rosenbrock():
    return problem(
        lambda t: np.array([10 * (t[1] - t[0] ** 2), 1 - t[0]]),
        lambda t: np.array([[-20 * t[0], 10.0], [-1.0, 0.0]]),
    )


def product():
    """Only the product of the two numbers matters: the direction along the hyperbola is unknown."""
    return problem(lambda t: np.array([t[0] * t[1] - 6.0]), lambda t: np.array([[t[1], t[0]]]))


def test_every_start_finds_the_minimum():
    starts = np.array([[-1.2, 1.0], [3.0, -3.0], [0.0, 0.0]])
    found = minimise(rosenbrock(), starts, 300, agree=False)
    np.testing.assert_allclose(found.theta, np.ones((3, 2)), atol=1e-9)
    assert found.history[0] >= found.history[-1] and found.history[-1] < 1e-20


def test_a_start_that_is_not_finite_is_left_where_it_is():
    found = minimise(rosenbrock(), np.array([[np.nan, 1.0], [-1.2, 1.0]]), 300)
    assert np.isnan(found.theta[0, 0]) and found.best == 1 and found.loss[1] < 1e-20
    nowhere = minimise(rosenbrock(), np.full((2, 2), np.nan), 10)
    assert not np.isfinite(nowhere.loss).any() and len(nowhere.history) == 1


def test_a_column_of_rounding_is_no_direction():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((50, 3))
    A[:, 2] = 1e-17 * rng.standard_normal(50)
    wanted = A[:, :2] @ np.array([2.0, -1.0])
    found = minimise(problem(lambda t: A @ np.resize(t, 3) - wanted, lambda t: A), np.array([[0.0, 0.0, 5.0]]))
    np.testing.assert_allclose(found.theta[0], [2.0, -1.0, 5.0], atol=1e-4)  # taken for a column, it moves by 1e10


def test_an_unknown_direction_does_not_drift():
    found = minimise(product(), np.array([[1.0, 1.0]]))
    np.testing.assert_allclose(found.theta[0], np.sqrt([6.0, 6.0]), rtol=1e-6)  # straight along the slope


def test_a_search_says_how_it_ended():
    starts = np.array([[-1.2, 1.0], [np.nan, 0.0]])
    assert minimise(rosenbrock(), starts, 300).status == (Status.CONVERGED, Status.NOT_FINITE)
    assert minimise(rosenbrock(), starts[:1], 3).status == (Status.STOPPED_EARLY,)


def test_of_two_searches_the_better_end_of_each_start_counts():
    def ended(*loss):
        return Solution(np.array(loss)[:, None], np.array(loss), (Status.CONVERGED,) * len(loss), (min(loss),))

    both = ended(1.0, 2.0).or_better(ended(3.0, 0.5))
    np.testing.assert_array_equal(both.theta[:, 0], [1.0, 0.5])
    assert both.history == (1.0, 0.5)


def test_numbers_that_are_eliminated_follow():
    """Rows `A θ + B y − b`, solved for θ and y at once and with y eliminated: the same end, in one step."""
    rng = np.random.default_rng(2)
    A, B, b = rng.standard_normal((30, 3)), rng.standard_normal((30, 4)), rng.standard_normal(30)

    def loss(points):
        return np.mean((points[:, :3] @ A.T + points[:, 3:] @ B.T - b) ** 2, axis=1)

    def normal(points):
        (r,) = points[:, :3] @ A.T + points[:, 3:] @ B.T - b
        inner = np.linalg.solve(B.T @ B, B.T @ np.column_stack([A, r]))
        eliminated = Eliminated(-inner[None, :, 3], -inner[None, :, :3], np.array([inner[:, 3] @ B.T @ r]) / 30)
        J = A - B @ inner[:, :3]
        return Normal(loss(points), (J.T @ r)[None] / 30, (J.T @ J)[None] / 30, eliminated)

    found = minimise(Problem(loss, normal, 30), np.zeros((1, 7)), unit=np.full(3, 1e3))
    both = np.linalg.lstsq(np.column_stack([A, B]), b, rcond=None)[0]
    assert found.eliminated is not None
    np.testing.assert_allclose(np.r_[found.theta[0], found.eliminated[0]], both, atol=1e-4)


def test_no_number_moves_further_than_its_unit_and_a_rough_loss_may_rise():
    unit = np.array([0.05, 0.02])
    start = np.array([[-1.2, 1.0]])
    assert (np.abs(minimise(rosenbrock(), start, 1, unit=unit).theta - start) <= unit).all()

    smooth = problem(lambda t: np.array([1.0, t[0]]), lambda t: np.array([[0.0, 0.0], [1.0, 0.0]]))
    jagged = Problem(lambda theta: smooth.loss(theta) + 0.01 * np.sin(1e3 * theta[:, 0]), smooth.normal, 2000)
    small = np.full(2, 0.005)
    stuck, past = (minimise(jagged, np.ones((1, 2)), 400, unit=small, rough=share) for share in (0.0, 0.05))
    assert stuck.theta[0, 0] > 0.5 > 0.25 > past.theta[0, 0]  # θ² / (1 + θ²) < 0.05 is below the roughness


def test_a_prior_adds_its_value_slope_and_matrix():
    held = rosenbrock().with_prior(Quadratic(np.array([0.5, 0.5]), np.array([2.0, 3.0])))
    theta, step = np.array([[0.3, 0.9]]), 1e-6
    found = held.normal(theta)
    np.testing.assert_allclose(found.loss, held.loss(theta))
    for k, unit in enumerate(np.eye(2)):
        slope = (held.loss(theta + step * unit) - held.loss(theta - step * unit)) / (2 * step)
        np.testing.assert_allclose(slope, 2 * found.gradient[:, k], rtol=1e-6)
    np.testing.assert_allclose(found.matrix - rosenbrock().normal(theta).matrix, [np.diag([2.0, 3.0])])
