"""Profiles of friction: intervals hold the truth, bounds are one-sided, and a fit finds the curve that it missed."""

import jax.numpy as jnp
import numpy as np
import pytest

import diffnea as dn
from diffnea.actuators.base import Role
from diffnea.identify.determine.uncertainty.friction_profile import CURVE_ROLES

ROBOT = dn.systems.furuta().robot
KINETIC, VISCOUS = np.array([0.02, 0.004]), np.array([0.01, 0.002])


def recorded(static: np.ndarray, speed: np.ndarray, seed: int, noise: float = 1e-3) -> dn.Recording:
    """Two joints along sums of sines with exact derivatives; torques have noise, friction is Stribeck's."""
    rng, time = np.random.default_rng(seed), np.arange(0, 16, 0.01)
    rate = 2 * np.pi * np.array([0.15, 0.4, 0.75])
    shape, phase = rng.uniform(0.2, 0.6, (3, 2)), rng.uniform(0, 6, (3, 2))
    angle = time[:, None, None] * rate[:, None] + phase
    q = (shape * np.sin(angle)).sum(1)
    qd = (shape * rate[:, None] * np.cos(angle)).sum(1)
    qdd = -(shape * rate[:, None] ** 2 * np.sin(angle)).sum(1)
    peak = KINETIC + (static - KINETIC) * np.exp(-((qd / speed) ** 2))
    u = np.asarray(dn.inverse_dynamics(ROBOT, q, qd, qdd)) + np.sign(qd) * peak + VISCOUS * qd
    u = u + noise * rng.normal(size=u.shape)
    return dn.Recording(time=time, q=q, qd=qd, qdd=qdd, u=u, joint_names=ROBOT.joint_names)


def fitted(recording: dn.Recording) -> dn.Fit:
    return dn.fit(ROBOT, recording, actuator="stribeck", loss="torque", method="lm")


@pytest.fixture(scope="module")
def peaked() -> dn.Fit:
    return fitted(recorded(1.8 * KINETIC, np.array([0.2, 0.3]), 0))


@pytest.fixture(scope="module")
def flat() -> dn.Fit:
    return fitted(recorded(KINETIC, np.array([0.2, 0.3]), 0, 2e-3))


def test_every_coefficient_of_a_curve_that_is_seen_has_an_interval_of_its_own(peaked):
    truth = dn.actuators.Stribeck.of(1.8 * KINETIC, KINETIC, VISCOUS, 1 / np.array([0.2, 0.3]) ** 2)
    found = {each.formula: each for each in peaked.identifiable if each.kind == "actuator"}
    assert len(found) == 8
    for each in found.values():
        true = each.of(dn.Model(ROBOT, truth))
        assert 0 < each.lower <= each.value <= each.upper
        assert abs(true - each.value) < 2 * (each.upper - each.lower), each.formula
    assert [row.identifiable for row in peaked.table if "friction" in row.name or "Stribeck" in row.name] == [True] * 8


def test_static_friction_without_a_peak_has_a_lower_bound_only(flat):
    codes = [(each.code, each.subject) for each in flat.unknown]
    for joint in ROBOT.joint_names:
        assert ("unknown-static-friction", joint) in codes and ("unknown-stribeck-velocity", joint) in codes
    names = {each.formula for each in flat.identifiable}
    assert not any("static" in name or "Stribeck" in name for name in names)
    assert {f"kinetic friction({joint})" for joint in ROBOT.joint_names} <= names
    analysis = flat.known.analysis
    assert analysis is not None
    lower, upper = analysis.friction[0].intervals[Role.STATIC]
    assert upper == np.inf and 0 < lower <= 1.1 * KINETIC[0]


@pytest.mark.slow
def test_beside_an_unknown_gain_friction_is_known_as_a_ratio_by_the_same_profiles():
    recording = recorded(1.8 * KINETIC, np.array([0.2, 0.3]), 0)
    found = dn.fit(ROBOT, recording, actuator="stribeck+gain", loss="acceleration", method="lm")
    ratios = {each.formula: each for each in found.identifiable if each.kind == "actuator"}
    static = ratios["static friction(arm) / command gain(arm)"]
    assert static.lower <= 1.8 * KINETIC[0] <= static.upper
    # A parabola has its ends at one distance; a profile has not.
    assert abs((static.upper - static.value) / (static.value - static.lower) - 1) > 1e-3
    # The scale is not known, so no friction by itself is.
    rows = {row.name: row.identifiable for row in found.table if "friction" in row.name or "Stribeck" in row.name}
    assert all("Stribeck" in name for name, known in rows.items() if known), rows


def test_every_joint_with_a_curve_has_a_profile(peaked):
    analysis = peaked.known.analysis
    assert analysis is not None and len(analysis.friction) == 2
    assert all(set(each.intervals) == set(CURVE_ROLES) for each in analysis.friction)


@pytest.mark.slow
def test_intervals_of_friction_hold_the_truth():
    inside: dict[Role, list[bool]] = {role: [] for role in CURVE_ROLES}
    for seed in range(12):
        rng = np.random.default_rng(100 + seed)
        static, speed = rng.uniform(1.2, 2.0, 2) * KINETIC, rng.uniform(0.1, 0.4, 2)
        analysis = fitted(recorded(static, speed, seed)).known.analysis
        assert analysis is not None
        true = {Role.STATIC: static, Role.KINETIC: KINETIC, Role.STRIBECK_VELOCITY: speed, Role.VISCOUS: VISCOUS}
        for each in analysis.friction:
            for role, (lower, upper) in each.intervals.items():
                inside[role].append(bool(lower <= true[role][each.joint] <= upper))
    # 24 intervals of each kind: fewer than 19 inside happen once in 900 times at 95 %.
    assert all(sum(each) >= 19 for each in inside.values()), {role: sum(each) for role, each in inside.items()}
    assert np.mean(sum(inside.values(), [])) >= 0.9


def test_torques_change_residuals_as_the_model_says(peaked):
    """Of the data behind a fit: friction raised by a little, by its effect and by the model itself."""
    linear = peaked.knowledge.args[-2]()
    theta, effect = jnp.asarray(linear.theta), linear.effect
    way = effect.way[:, 0]
    place = next(k for k, label in enumerate(linear.labels) if "raw_viscous 0" in label)
    viscous = effect.of_joint(0, effect.velocity[:, :1])[:, 0]
    slope = np.asarray(linear.jacobian[:, place])
    factor = float(slope @ viscous / (viscous @ viscous))
    np.testing.assert_allclose(slope, factor * viscous, atol=1e-9 * np.abs(slope).max())
    assert factor == pytest.approx(float(1 / (1 + np.exp(-theta[place]))), rel=1e-6) and way.shape == (
        len(effect.velocity),
    )
