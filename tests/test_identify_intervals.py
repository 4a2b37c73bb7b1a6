"""Intervals: noise in the regressors, errors that last as long as a window, peaks of which only the foot is seen."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import diffnea as dn
from diffnea.actuators.base import Role
from diffnea.identify.determine.findings import linearised
from diffnea.identify.determine.uncertainty.covariance import NORMAL_QUANTILE, Uncertainty, noise, uncertainty
from diffnea.identify.determine.uncertainty.friction_curves import FrictionProfile, with_fitted
from diffnea.identify.determine.uncertainty.friction_jumps import without_friction_jumps
from diffnea.identify.determine.uncertainty.input_timing import with_timing
from diffnea.identify.determine.uncertainty.regressor_noise import bias
from diffnea.identify.options import Options, SolveOptions
from diffnea.identify.problem.linearised import Linearised
from diffnea.identify.problem.measurements.rows import Batch, Rows, filtered, plain, taps_of
from diffnea.identify.problem.torque_balance import torques
from diffnea.identify.problem.torque_effect import TorqueEffect
from diffnea.identify.problem.unknowns import unknowns
from diffnea.recordings.signal.smoothing import derivatives

ROBOT = dn.systems.furuta().robot
ANY = dn.Model(ROBOT, dn.actuators.Ideal(2))
MASS, DT, WIDE, NOISE, VISCOUS = 2.0, 0.004, 25.0, 2e-3, 3e-4


def slide(seed: int) -> Linearised:
    """`m q̈ = u` of one joint that slides, its positions read with noise, at the least-squares estimate of m."""
    rng, time = np.random.default_rng(seed), np.arange(0, 20, DT)
    rate = 2 * np.pi * np.array([0.3, 0.8, 1.3])
    q, force = (np.sin(rate * time[:, None] + seed) * factor for factor in (0.4, -0.4 * MASS * rate**2))
    read = derivatives(q.sum(1) + NOISE * rng.normal(size=len(time)), DT, WIDE)
    q, qd, qdd = (each[:, None] for each in (read.q, read.qd, read.qdd))
    taps = taps_of(2 * np.pi * 12 * DT)
    size = taps.shape[1]
    kept = slice(0, len(time) // size * size)
    batch = Batch(q, qd, qdd, force.sum(1)[:, None, None], np.ones((len(time), 1))).take(kept)
    rows = filtered(batch, [len(batch.q)], DT, taps)
    return problem(replace(rows, noise=np.array([NOISE]), density=1.0, wide=2 * np.pi * WIDE * DT), None)


def low_passed(rows: Rows, values: np.ndarray) -> np.ndarray:
    assert rows.low_pass is not None
    blocks, size = rows.low_pass.taps.shape
    starts = size * np.arange(len(rows.weight))[:, None] + np.arange(blocks * size)
    return np.einsum("rtk,t->rk", values[starts], rows.low_pass.taps.ravel())


def problem(rows: Rows, mass: float | None) -> Linearised:
    slopes, wanted = (low_passed(rows, each) for each in (rows.batch.qdd, rows.batch.u[:, 0]))
    kept = rows.weight[:, 0] > 0
    slopes, wanted = slopes[kept], wanted[kept, 0]
    mass = float(slopes[:, 0] @ wanted / (slopes[:, 0] @ slopes[:, 0])) if mass is None else mass
    places = np.zeros(len(wanted), int), np.arange(len(wanted)), np.zeros(len(wanted), int)
    found = Linearised(
        np.array([mass]), slopes, mass * slopes[:, 0] - wanted, *places, ("m",), lambda theta: ANY, (), rows.dt
    )
    effect = TorqueEffect(ANY, "torque", (rows,), (len(rows.weight),))
    return replace(found, effect=effect, redrawn=lambda change: problem(change(rows), mass))


def test_noise_in_the_regressors_is_seen_by_adding_more_of_it():
    """Noisy accelerations make the mass too small, by far more than chance does; what is found of that is true."""
    found = [slide(seed) for seed in range(8)]
    off = np.array([each.theta[0] - MASS for each in found])
    guessed = np.array([bias(each, np.eye(1), 6)[0] for each in found])
    assert np.mean(off) < -20 * np.std(off) / np.sqrt(8) < 0 and np.mean(off) < -0.003 * MASS
    np.testing.assert_allclose(guessed, np.mean(off), rtol=0.25)
    assert abs(np.mean(off - guessed)) < 0.1 * abs(np.mean(off))


def test_noise_is_not_added_where_there_is_none():
    given = slide(0)
    assert given.effect is not None
    rows = replace(given.effect.rows[0], noise=np.zeros(1))
    assert bias(replace(given, effect=replace(given.effect, rows=(rows,))), np.eye(1), 6) == 0
    assert bias(replace(given, redrawn=None), np.eye(1), 6) == 0


def test_errors_that_last_as_long_as_a_window_are_not_many_independent_ones():
    """Windows of random walks, beside what repeated data sets do to the same estimates."""
    rng = np.random.default_rng(0)
    windows, length, numbers = 30, 40, 3
    slopes = rng.normal(size=(windows, 1, numbers)) * np.linspace(0.2, 1, length)[:, None] ** np.arange(1, numbers + 1)
    slopes += 0.3 * rng.normal(size=slopes.shape)
    jacobian = slopes.reshape(-1, numbers)
    segment, sample = np.repeat(np.arange(windows), length), np.tile(np.arange(length), windows)
    joint = np.zeros(len(segment), int)
    errors, widths, independent = [], [], []
    for _ in range(60):
        wrong = rng.normal(size=(windows, length)).cumsum(axis=1).ravel()
        step = np.linalg.lstsq(jacobian, wrong, rcond=None)[0]
        rows = wrong - jacobian @ step, joint, sample, segment
        found = noise(*rows, numbers, True)
        errors.append(step)
        spread = uncertainty(jacobian, *rows, found, True, starts=np.zeros((len(jacobian), 1)))
        widths.append(spread.std(np.eye(numbers)))
        independent.append(np.sqrt(np.diag(np.linalg.inv(jacobian.T @ jacobian)) * np.mean(rows[0] ** 2)))
    true = np.std(errors, axis=0)
    np.testing.assert_allclose(np.mean(widths, axis=0), true, rtol=0.3)
    assert np.all(np.mean(independent, axis=0) < 0.6 * true)


def test_what_starts_of_short_windows_take_of_the_noise_is_put_back():
    """Each start takes two slow motions of its window's own; what it left did too little in the place of others'."""
    rng, windows, length = np.random.default_rng(0), 24, 25
    time = np.linspace(0, 1, length)
    rate = rng.uniform(0.3, 6, windows)[:, None] * time
    starts = np.linalg.qr(np.stack([np.cos(rate), np.sin(rate)], axis=2))[0]
    slopes = rng.normal(size=(windows, 1, 4)) * time[:, None] ** np.arange(1, 5)
    slopes -= starts @ (np.swapaxes(starts, 1, 2) @ slopes)
    jacobian, taken = slopes.reshape(-1, 4), starts.reshape(-1, 2)
    segment, sample = np.repeat(np.arange(windows), length), np.tile(np.arange(length), windows)
    places = np.zeros(len(segment), int), sample, segment
    errors, widths, without = [], [], []
    for _ in range(150):
        wrong = rng.normal(size=(windows, length, 1))
        wrong = (wrong - starts @ (np.swapaxes(starts, 1, 2) @ wrong)).ravel()
        step = np.linalg.lstsq(jacobian, wrong, rcond=None)[0]
        left = wrong - jacobian @ step
        found = noise(left, *places, 4, True)
        errors.append(step)
        for kept, spans in ((widths, taken), (without, np.zeros_like(taken))):
            spread = uncertainty(jacobian, left, *places, found, True, starts=spans)
            kept.append(replace(spread, by_segment=None).std(np.eye(4)))
    true = np.std(errors, axis=0)
    np.testing.assert_allclose(np.mean(widths, axis=0), true, rtol=0.15)
    assert np.all(np.mean(without, axis=0) < 0.85 * true)


def test_windows_that_tell_most_and_err_most_are_not_like_all_others():
    """Fast windows have large slopes and large errors: exchanged with those of slow ones, errors do too little."""
    rng, windows, length = np.random.default_rng(0), 40, 20
    size = rng.lognormal(0, 0.5, windows)[:, None, None]
    slopes = size * rng.normal(size=(windows, 1, 3)) * np.linspace(0, 1, length)[:, None] ** np.arange(1, 4)
    jacobian, nothing = slopes.reshape(-1, 3), np.zeros((windows * length, 1))
    segment, sample = np.repeat(np.arange(windows), length), np.tile(np.arange(length), windows)
    places = np.zeros(len(segment), int), sample, segment
    errors, covered, alike = [], [], []
    for _ in range(150):
        wrong = (size * rng.normal(size=(windows, length, 1)).cumsum(axis=1)).ravel()
        step = np.linalg.lstsq(jacobian, wrong, rcond=None)[0]
        left = wrong - jacobian @ step
        spread = uncertainty(jacobian, left, *places, noise(left, *places, 3, True), True, starts=nothing)
        covered.append(np.abs(step) < spread.quantile() * spread.std(np.eye(3)))
        errors.append(step)
        alike.append(replace(spread, by_segment=None).std(np.eye(3)))
    assert np.all(np.mean(alike, axis=0) < 0.85 * np.std(errors, axis=0))
    assert 0.91 < np.mean(covered) < 0.99  # 450 correlated counts: 95 ± 3 %
    some = slice(0, 3 * length)  # as many windows as numbers
    few = np.ones(3 * length), places[0][some], sample[some], segment[some]
    assert uncertainty(jacobian[some], *few, noise(*few, 3, True), True, starts=nothing[some]).by_segment is None


def test_static_friction_is_a_lower_bound_where_only_the_foot_of_its_peak_is_seen():
    """Speeds down to 1.2 Stribeck velocities show that there is a peak, but not how high it is."""
    kinetic, time, rng = 0.02, np.arange(0, 16, 0.01), np.random.default_rng(1)
    speed = np.array([0.25, 0.3])
    qd = 0.9 + 0.6 * np.sin(2 * np.pi * np.array([0.31, 0.47]) * time[:, None])  # 0.3 to 1.5 rad/s
    q = np.cumsum(qd, axis=0) * 0.01
    qdd = 0.6 * 2 * np.pi * np.array([0.31, 0.47]) * np.cos(2 * np.pi * np.array([0.31, 0.47]) * time[:, None])
    dry = kinetic * (1 + 2 * np.exp(-((qd / speed) ** 2)))
    u = np.asarray(dn.inverse_dynamics(ROBOT, q, qd, qdd)) + dry + np.array([0.01, 0.002]) * qd
    u = u + 2e-5 * rng.normal(size=u.shape)
    recording = dn.Recording(time=time, q=q, qd=qd, qdd=qdd, u=u, joint_names=ROBOT.joint_names)
    asked: dict[str, Any] = {"actuator": "stribeck", "loss": "torque", "method": "lm"}
    fit = dn.fit(ROBOT, recording, **asked)
    analysis = fit.known.analysis
    assert analysis is not None
    for each in analysis.friction:
        lower, upper = each.intervals[Role.STATIC]
        assert upper == np.inf and kinetic < lower <= 3 * kinetic
    notes = {each.subject: each for each in fit.unknown if each.code == "unknown-static-top"}
    assert set(notes) == set(ROBOT.joint_names)
    assert not any(each.formula.startswith("static") for each in fit.identifiable)
    # The same search, cut short: it says so.
    short = Options(solve=SolveOptions(iterations=1))
    stopped = dn.fit(ROBOT, recording, **asked, options=short)
    assert stopped.status == "stopped early" and "search-stopped" in stopped.verdict.codes
    assert fit.status == "converged" and "search-stopped" not in fit.verdict.codes


def test_each_coefficient_has_one_interval_where_zeros_are_learned_too():
    """Stribeck friction has its own by profiles."""
    time, rate = np.arange(0, 12, 0.01), 2 * np.pi * np.array([0.31, 0.47])
    q, qd, qdd = (np.sin(rate * time[:, None] + k * np.pi / 2) * rate**k for k in range(3))
    model = dn.Model(ROBOT, dn.actuators.Stribeck.of(0.04, 0.02, 0.005, 4.0, num_joints=2))
    u = torques(model, q, qd, qdd, 0 * q, np.sign(qd)).left + 2e-5 * np.random.default_rng(1).normal(size=q.shape)
    recording = dn.Recording(time=time, q=q, qd=qd, qdd=qdd, u=u, joint_names=ROBOT.joint_names)
    asked: dict[str, Any] = {"actuator": "stribeck", "loss": "torque", "method": "lm"}
    fit = dn.fit(ROBOT, recording, **asked, learn=("inertia", "actuator", "calibration"))
    names = [each.formula for each in fit.identifiable]
    assert {f"viscous friction({joint})" for joint in ROBOT.joint_names} <= set(names)
    assert len(set(names)) == len(names)


def test_an_interval_by_a_profile_reaches_as_far_beyond_a_fit_that_ended_outside_of_it():
    assert with_fitted(1.5, 1.0, 2.0) == (1.0, 2.0)
    assert with_fitted(2.1, 1.0, 2.0) == (1.0, 2.6)
    assert with_fitted(0.9, 1.0, 2.0) == (0.4, 2.0) and with_fitted(0.1, 1.0, 2.0) == (0.0, 2.0)
    assert with_fitted(0.9, 1.0, np.inf) == (0.9, np.inf)


def pushed(jump: float, often: int = 60) -> Linearised:
    """`a x = y` with x = 1 or −1 in turn, where near each turn y is off by `jump` to the side of x."""
    x = np.where(np.arange(600) // often % 2, 1.0, -1.0)
    far = np.arange(600) % often >= 10
    y = MASS * x - jump * x * ~far + 0.01 * np.random.default_rng(0).normal(size=600)
    mass = float(x @ y / (x @ x))
    places = np.zeros(600, int), np.arange(600), np.zeros(600, int)
    found = Linearised(np.array([mass]), x[:, None], mass * x - y, *places, ("m",), lambda theta: ANY, (), DT)
    return replace(found, far=far)


def test_rows_that_reversals_reach_move_no_interval():
    found, step = pushed(0.3), np.eye(1)
    clear, moved = without_friction_jumps(found, step)
    assert found.theta[0] < MASS - 0.04  # by a sixth of the jump
    np.testing.assert_allclose(found.theta - moved, MASS, atol=2e-3)
    assert len(clear.residuals) == 500 and clear.far is not None and clear.far.all()


def test_a_joint_that_always_turns_back_keeps_its_rows():
    found = pushed(0.3, often=12)
    clear, moved = without_friction_jumps(found, np.eye(1))
    assert clear.residuals is found.residuals or len(clear.residuals) == 600
    np.testing.assert_array_equal(moved, 0.0)


def driven_arm(late: float) -> tuple[Linearised, FrictionProfile]:
    """Torques of a Furuta pendulum with Stribeck friction, read by a share of a sample late; a profile at the truth."""
    time, rate = np.arange(0, 6, DT), 2 * np.pi * np.array([0.7, 1.1])
    q, qd, qdd = (np.sin(rate * time[:, None] + k * np.pi / 2) * rate**k for k in range(3))
    friction = dn.actuators.Stribeck.of(0.02, 0.02, VISCOUS, 25.0, num_joints=2)
    truth = dn.Model(ROBOT, friction)
    way = np.sign(qd)
    tau = torques(truth, q, qd, qdd, 0 * q, way).left
    u = tau - late * np.gradient(tau, axis=0) + 1e-4 * np.random.default_rng(0).normal(size=q.shape)
    free = unknowns(ROBOT, ("actuator",), friction, jax.random.key(0))
    rows = plain(Batch(q, qd, qdd, u[:, None], np.ones_like(q), way), [len(q)], DT)
    found = linearised(free, [rows], np.asarray(free.start), "torque", True)
    moved = np.linalg.lstsq(found.jacobian, -found.residuals, rcond=None)[0]
    found = linearised(free, [rows], found.theta + moved, "torque", True)
    fitted = {each.role: float(each.values[0]) for each in found.unpack(jnp.asarray(found.theta)).actuator.physical()}
    ends = {role: (0.995 * value, 1.005 * value) for role, value in fitted.items()}
    return found, FrictionProfile(0, ends | {Role.STATIC: (fitted[Role.STATIC], np.inf)}, fitted, 0.0, 1.0, 32)


def test_profiles_of_friction_know_that_torques_were_read_at_some_instant():
    """Viscous friction is off by what a third of a sample does to it: its interval is moved to where it should be."""
    found, profile = driven_arm(0.33)
    told = noise(found.residuals, found.joint, found.sample, found.segment, 8, True)
    (after,) = with_timing([profile], found, told)
    lower, upper = after.intervals[Role.VISCOUS]
    before = profile.intervals[Role.VISCOUS]
    assert not before[0] <= VISCOUS <= before[1]
    assert lower <= VISCOUS <= upper and upper - lower < 0.2 * VISCOUS
    assert after.intervals[Role.STATIC][1] == np.inf
    assert after.intervals[Role.STRIBECK_VELOCITY] == profile.intervals[Role.STRIBECK_VELOCITY]
    assert with_timing([profile], replace(found, untimed=False), told) == [profile]


def test_only_what_rests_on_few_cosines_has_students_quantile():
    few = Uncertainty(np.eye(1), 4 * np.eye(1), 4.0, np.eye(1))
    np.testing.assert_allclose(few.quantile() * few.std(np.eye(1)), 2 * NORMAL_QUANTILE)
    many = replace(few, stationary=0.1 * np.eye(1))
    np.testing.assert_allclose(many.quantile() * many.std(np.eye(1)), many.quantile())
