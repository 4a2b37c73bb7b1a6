"""What servos keep between steps: profiles of goals against their closed form, integral terms against small steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffnea as dn
from diffnea.actuators import Delay, GoalProfile, Integral, Limit, Profile, Servo, combine, make
from diffnea.models import Model
from diffnea.simulate.delay import profiled
from diffnea.simulate.memory import Kept

PENDULUM = """<mujoco><worldbody><body name="a" pos="0 0 1"><joint name="a" axis="0 1 0" armature="0.01"/>
  <inertial pos="0.2 0 0" mass="0.5" diaginertia="1e-3 4e-3 4e-3"/></body></worldbody></mujoco>"""
INERTIA, MOMENT = 4e-3 + 0.5 * 0.2**2 + 0.01, 0.5 * 9.81 * 0.2
SPEED, ACCELERATION = 2.0, 10.0
DT, ROWS = 0.02, 120
STEP = np.where(np.arange(ROWS) < 10, 0.0, 1.0)[:, None]
STILL = np.zeros(1)


@pytest.fixture(scope="module")
def joint(tmp_path_factory) -> dn.Robot:
    path = tmp_path_factory.mktemp("arm") / "arm.xml"
    path.write_text(PENDULUM)
    return dn.load_robot(path)


@pytest.fixture(scope="module")
def stiff(joint) -> Model:
    return Model(joint, combine(Servo.of(2000.0, 40.0, steps=8), Profile.of(SPEED, ACCELERATION)))


def test_a_profile_is_a_trapezoid_and_ends_at_its_goal():
    """Up at a, on at v, down at a: over after d/v + v/a; its second differences are the acceleration, or nothing."""
    h, rows = 1e-3, 1200
    with jax.enable_x64(True):
        profile = GoalProfile(jnp.array([SPEED, 1e3]), jnp.array([ACCELERATION, ACCELERATION]))
        start = jnp.zeros(2), jnp.zeros(2)

        def step(state, target):
            state = profile.advance(*state, target, jnp.asarray(h))
            return state, state[0]

        seen = np.asarray(jax.lax.scan(step, start, jnp.ones((rows, 2)))[1])
    time = h * np.arange(1, rows + 1)[:, None]
    over = np.array([1 / SPEED + SPEED / ACCELERATION, 2 * np.sqrt(1 / ACCELERATION)])
    assert np.all(np.abs(seen - 1)[time > over + 5 * h] < 1e-12)
    assert np.all(seen[time[:, 0] < over[1] - 0.05] < 0.99)
    rate = np.diff(seen, axis=0, prepend=0) / h
    assert rate[:, 0].max() == pytest.approx(SPEED) and rate[:, 1].max() == pytest.approx(np.sqrt(ACCELERATION), 0.01)
    assert np.abs(np.diff(rate, axis=0)).max() < ACCELERATION * h * (1 + 1e-6)
    slope = np.interp(0.1, time[:, 0], seen[:, 0])
    assert slope == pytest.approx(ACCELERATION * 0.1**2 / 2, rel=0.03)


def test_without_an_acceleration_a_profile_is_a_rate_limit():
    limit = GoalProfile(jnp.array([SPEED]))
    came = np.asarray(profiled(jnp.asarray(STEP), limit, jnp.asarray(DT)).end)[:, 0]
    assert np.allclose(np.diff(came)[10:30], SPEED * DT, rtol=1e-3)
    assert np.allclose(came[:10], 0) and np.allclose(came[40:], 1)
    slow = 0.5 * SPEED * DT * np.arange(50)[:, None]  # goals that a limit never holds back come as they are
    assert np.allclose(profiled(jnp.asarray(slow), limit, jnp.asarray(DT)).end, slow, atol=1e-6)


def test_a_stiff_servo_follows_its_profile(stiff):
    run = dn.rollout(stiff, STILL, STILL, STEP, DT)
    q = np.asarray(run.q)[:, 0]
    wanted = np.asarray(profiled(jnp.asarray(STEP), stiff.actuator.profile, jnp.asarray(DT)).end)[:, 0]
    assert np.abs(q[1:] - wanted[:-1]).max() < 0.06 and abs(q[-1] - 1) < 1e-3
    assert np.abs(np.diff(q)).max() < 1.02 * SPEED * DT
    assert stiff.energy_class == "bounded"


def test_recorded_goals_laws_and_environments_profile_alike(stiff):
    """What is kept travels with each: the same goals, one by one or all at once, lead to the same states."""
    run = dn.rollout(stiff, STILL, STILL, STEP, DT)

    def told(t, q, qd):
        return jnp.where(t < 10 * DT - 1e-6, 0.0, 1.0) + 0 * q

    law = dn.rollout(stiff, STILL, STILL, told, DT, steps=ROWS)
    assert np.allclose(law.q, run.q, atol=1e-6)
    pytest.importorskip("gymnasium")
    env = dn.make_env(stiff, dt=DT, effort=(1.0,), spread=0.0)
    for _ in range(2):  # a new episode begins anew
        env.reset(seed=0)
        for goal in STEP[:40]:
            env.step(goal)
        assert np.allclose(env.state[0], run.q[40], atol=1e-5) and 0.1 < env.state[0] < 0.95


def test_a_delay_comes_before_a_profile(joint, stiff):
    late = Model(joint, combine(stiff.actuator, Delay.of(1.5, 1)))
    runs = [np.asarray(dn.rollout(each, STILL, STILL, STEP, DT).q)[:, 0] for each in (stiff, late)]
    middle = [np.interp(0.5, q, DT * np.arange(ROWS)) for q in runs]
    assert middle[1] - middle[0] == pytest.approx(1.5 * DT, abs=5e-4)


def test_a_goal_that_has_arrived_adds_no_energy(stiff):
    """On its way a profile does work on the joint; from where it ends on nothing is added."""
    run = dn.rollout(stiff, STILL, STILL, STEP, DT)
    energy = np.asarray(stiff.energy(run.q, run.qd, STEP))
    arrived = 10 + round((1 / SPEED + SPEED / ACCELERATION) / DT) + 2
    assert np.diff(energy[arrived:]).max() < 1e-6 * np.ptp(energy)


def test_slopes_in_both_numbers_of_a_profile(joint):
    with jax.enable_x64(True):
        robot = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), joint)

        def mean(limits):
            parts = Servo.of(jnp.array([2000.0]), jnp.array([40.0]), steps=8), Profile.of(limits[:1], limits[1:])
            return jnp.mean(dn.rollout(Model(robot, combine(*parts)), STILL, STILL, STEP, DT).q)

        at, h = jnp.array([SPEED, ACCELERATION]), 1e-7
        slopes = jax.grad(mean)(at)
        wanted = [(mean(at + h * unit) - mean(at - h * unit)) / (2 * h) for unit in jnp.eye(2)]
    assert np.all(np.asarray(slopes) > 0) and np.allclose(slopes, wanted, rtol=1e-3)


def in_small_steps(kp: float, kd: float, ki: float, limit: float, goals: np.ndarray) -> np.ndarray:
    """The pendulum under a PID by explicit steps of 20 µs, at rest first: the witness."""
    fine, q, qd, seen = 1000, 0.0, 0.0, []
    total = -MOMENT / ki if ki else 0.0
    for goal in goals[:, 0]:
        seen.append(q)
        for _ in range(fine):
            total = np.clip(total + DT / fine * (goal - q), -limit / ki, limit / ki)
            torque = np.clip(kp * (goal - q) - kd * qd + ki * total, -limit, limit)
            qd += DT / fine * (torque + MOMENT * np.cos(q)) / INERTIA
            q += DT / fine * qd
    return np.array(seen)


def test_an_integral_term_moves_as_small_steps_do(joint):
    """It holds the weight from the start, brings the joint to its goal without a droop, and stops at the limit."""
    kp, kd, ki, limit = 8.0, 0.8, 12.0, 4.0
    model = Model(joint, combine(Servo.of(kp, kd, steps=16), Integral.of(ki), Limit.of(limit)))
    assert model.energy_class == "unbounded"
    goals = 0.6 * STEP
    q = np.asarray(dn.rollout(model, STILL, STILL, goals, DT).q)[:, 0]
    assert np.allclose(q[:10], 0, atol=1e-4)
    assert np.abs(q - in_small_steps(kp, kd, ki, limit, goals)).max() < 6e-3
    droop = Model(joint, combine(Servo.of(kp, kd, steps=16), Limit.of(limit)))
    assert droop.energy_class == "bounded"
    held = np.asarray(dn.rollout(droop, STILL, STILL, np.repeat(goals, 2, 0), DT).q)[-1, 0]
    whole = np.asarray(dn.rollout(model, STILL, STILL, np.repeat(goals, 2, 0), DT).q)[-1, 0]
    assert abs(held - 0.6) > 0.08 and abs(whole - 0.6) < 0.02


def test_an_integral_stops_where_its_torque_is_the_limit():
    """Against windup; without a limit it goes on."""
    q, told, h = jnp.zeros(1), jnp.ones(1), jnp.asarray(0.5)
    for parts, wanted in (((), 5.0), ((Limit.of(6.0),), 6.0 / 4.0)):
        actuator = combine(Servo.of(8.0), Integral.of(4.0), *parts)
        kept = Kept(integral=jnp.zeros(1))
        for _ in range(10):
            kept = kept.summed(actuator, told, q, h)
        assert float(kept.integral[0]) == pytest.approx(wanted, rel=1e-4)
        assert float(kept.acting(actuator, told)[0]) == pytest.approx(1 + 4.0 / 8.0 * wanted, rel=1e-4)


def test_names_and_refusals(joint):
    made = make("servo+profile+integral+stribeck+load+play+delay", 2)
    assert made.profile is not None and made.integral is not None and made.energy_class == "unbounded"
    assert {each.name for each in made.physical()} >= {"speed limit of goals", "servo integral gain ki"}
    for name in ("profile+stribeck", "integral+stribeck"):
        with pytest.raises(ValueError, match="servo"):
            make(name, 2)
    with pytest.raises(ValueError, match="integral term"):
        make("servo+integral+nn-residual", 1, key=jax.random.key(0))
    model = Model(joint, combine(Servo.of(1.0), Profile.of(1.0)))
    with pytest.raises(ValueError, match="integrator auto"):
        dn.rollout(model, STILL, STILL, STEP, DT, "rk4")
