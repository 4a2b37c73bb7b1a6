"""Servos: position loops in roll-outs. A held goal adds no energy, stiff loops stay stable, and physics are right."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from robots import random_robot, random_tree

import diffnea as dn
from diffnea import actuators
from diffnea.actuators import Coupling, Delay, Lead, Limit, Load, Play, Servo, Stribeck, combine
from diffnea.actuators.goals.position_loop import PositionLoop
from diffnea.contact import Table
from diffnea.models import Model

RISE = 1e-9  # of the energy's range, in one step
WHOLE = "servo+stribeck+load+play+delay"


def drawn(robot: dn.Robot, seed: int) -> Model:
    """A servo with everything it can have, its stiffness anywhere in four decades, over a table."""
    rng, n = np.random.default_rng(seed), robot.num_joints
    typical = np.diagonal(np.asarray(dn.mass_matrix(robot, np.zeros(n))))
    stiffness = typical * 10 ** rng.uniform(0, 4, n)
    damping = rng.uniform(0, 1, n) * np.sqrt(stiffness * typical)
    limit = stiffness * 10 ** rng.uniform(-2, 1, n)
    servo = Servo.of(stiffness, damping, rng.uniform(0, 0.05, n))
    most = Limit.of(limit, 10 ** rng.uniform(0, 1.5, n))
    rubbing = Stribeck.of(*(typical * rng.uniform(0, 3, n) for _ in range(3)), 100.0)
    load = Load.of(*(rng.uniform(0, 0.5, n) for _ in range(3)), 100.0)
    table = Table(jnp.asarray(rng.uniform(-1, 0)), jnp.asarray(1e3), jnp.asarray(rng.normal(0, 0.1, (1, 3))), (n - 1,))
    return Model(robot, combine(servo, most, rubbing, load, Play.of(rng.uniform(0, 0.02, n))), table)


def rises(count: int, seeds: range) -> list[float]:
    """Largest rises of energy under held goals, as shares of its range; steps of 0.5 to 20 ms."""
    found = []
    robot = random_robot(random_tree(3, 4), 3)
    for seed in seeds:
        rng, model = np.random.default_rng(seed), drawn(robot, seed)
        dt = float(np.exp(rng.uniform(np.log(5e-4), np.log(2e-2))))
        q0, goal = rng.uniform(-2, 2, (2, count, 4))
        u = np.broadcast_to(goal[:, None], (count, 300, 4))
        run = dn.rollout(model, q0, rng.normal(0, 3, (count, 4)), u, dt)
        assert run.diverged_at is None
        energy = np.asarray(model.energy(run.q, run.qd, u))
        found.append(float(np.max(np.diff(energy).max(-1) / np.ptp(energy, axis=-1))))
    return found


def test_held_goals_add_no_energy():
    assert max(rises(4, range(10))) < RISE


@pytest.mark.slow
def test_held_goals_add_no_energy_in_500_roll_outs():
    assert max(rises(5, range(100, 200))) < RISE


def test_the_torque_is_the_slope_of_what_is_stored_and_falls_with_velocity():
    rng = np.random.default_rng(0)
    loop = PositionLoop(*(jnp.asarray(rng.uniform(0.1, 3, 50)) for _ in range(5)))
    error = jnp.asarray(rng.normal(0, 3, 50))
    slower, faster = map(jnp.asarray, np.sort(rng.normal(0, 4, (2, 50)), axis=0))
    slope = jax.grad(lambda e: loop.energy(e))(error)
    assert np.allclose(slope, loop.torque(error, jnp.zeros(50)), atol=1e-6)
    assert np.all(loop.torque(error, faster) <= loop.torque(error, slower))


def test_the_root_of_a_step_is_its_root():
    """`m v = p + h τ(e − h v, v) − h f s` with s = sign(v), or |s| ≤ 1 where v = 0."""
    rng, n, h = np.random.default_rng(1), 200, 0.01
    with jax.enable_x64(True):
        loop = PositionLoop(*(jnp.asarray(10 ** rng.uniform(-2, 2, n)) for _ in range(5)))
        mass, dry, push, error = map(
            jnp.asarray, (10 ** rng.uniform(-3, 0, n), 10 ** rng.uniform(-1, 2, n), *rng.normal(0, 0.1, (2, n)))
        )
        v = jnp.stack([loop.velocity(i, mass[i], push[i], error[i], dry[i], jnp.asarray(h)) for i in range(n)])
        left = np.asarray(mass * v - push - h * loop.torque(error - h * v, v))
    v, dry = np.asarray(v), np.asarray(dry)
    rests = v == 0
    assert 20 < rests.sum() < 180
    assert np.all(np.abs(left[rests]) <= h * dry[rests] + 1e-12)
    assert np.allclose(left[~rests], -h * dry[~rests] * np.sign(v[~rests]), atol=1e-9)


ARM = """<mujoco><option timestep="0.0005" integrator="implicitfast"/><worldbody>
      <body name="a" pos="0 0 1"><joint name="a" axis="0 1 0" damping="0.3" armature="0.01"/>
        <inertial pos="0.2 0 0" mass="0.5" diaginertia="1e-3 4e-3 4e-3"/>
        <body name="b" pos="0.4 0 0"><joint name="b" axis="0 1 0" damping="0.2" armature="0.01"/>
          <inertial pos="0.1 0 0.02" mass="0.3" diaginertia="5e-4 1e-3 1e-3"/></body></body></worldbody>
      {}</mujoco>"""
SERVOS = '<actuator><position joint="a" kp="30" kv="0.4"/><position joint="b" kp="12" kv="0.2"/></actuator>'


@pytest.fixture(scope="module")
def robot(tmp_path_factory) -> dn.Robot:
    """The same two links."""
    path = tmp_path_factory.mktemp("arm") / "arm.xml"
    path.write_text(ARM.format(""))
    return dn.load_robot(path)


@pytest.fixture(scope="module")
def joint(tmp_path_factory) -> dn.Robot:
    """The first joint of it alone."""
    path = tmp_path_factory.mktemp("arm") / "arm.xml"
    path.write_text(ARM.format(""))
    return dn.load_robot(path, lock=["b"])


def in_mujoco(goals: np.ndarray, dt: float) -> np.ndarray:
    model = mujoco.MjModel.from_xml_string(ARM.format(SERVOS))
    data, q = mujoco.MjData(model), []
    for goal in goals:
        q.append(data.qpos.copy())
        data.ctrl[:] = goal
        for _ in range(round(dt / model.opt.timestep)):
            mujoco.mj_step(model, data)
    return np.array(q)


def test_it_moves_as_in_mujoco(robot):
    """Two coupled joints with gravity; the witness makes forty steps of 0.5 ms for each of ours."""
    dt, rows = 0.02, 150
    goals = np.stack([0.8 * np.sin(np.arange(rows) * dt * 4), np.where(np.arange(rows) < 50, 0.0, 1.0)], -1)
    servo = Servo.of(np.array([30.0, 12.0]), np.array([0.4, 0.2]), steps=10)
    model = Model(robot, combine(servo, actuators.Viscous.of(np.array([0.3, 0.2]))))
    run = dn.rollout(model, np.zeros(2), np.zeros(2), goals, dt)
    error = np.asarray(run.q) - in_mujoco(goals, dt)
    assert np.sqrt(np.mean(error**2)) < 0.015  # of 1 rad; gravity droops by 0.1
    assert abs(error[-1, 1]) < 2e-3  # that goal is held


def test_a_goal_that_comes_late_changes_within_a_sample(joint):
    """Half a sample late is not the mean of two goals: the same as ten times as many samples, five of them late."""
    coarse, fine, rows = 0.02, 0.002, 60
    goal = np.where(np.arange(rows) < 20, 0.0, 0.3)[:, None]
    gains = 30.0, 1.0
    half = Model(joint, combine(Servo.of(*gains, steps=40), Delay.of(0.5, 1)))
    five = Model(joint, combine(Servo.of(*gains, steps=4), Delay.of(5.0, 1)))
    start = np.array([0.0])
    seen = np.asarray(dn.rollout(half, start, start, goal, coarse).q)
    wanted = np.asarray(dn.rollout(five, start, start, np.repeat(goal, 10, axis=0), fine).q)[::10]
    assert np.abs(seen - wanted).max() < 1e-3
    mean = (goal + np.concatenate([goal[:1], goal[:-1]])) / 2
    prompt = Model(joint, Servo.of(*gains, steps=40))
    assert np.abs(np.asarray(dn.rollout(prompt, start, start, mean, coarse).q) - wanted).max() > 3e-3


def test_inner_steps_are_of_second_order(joint):
    """Half as long, they are wrong by a quarter as much, where nothing sticks."""
    with jax.enable_x64(True):
        robot = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), joint)
        goal = 0.5 * np.sin(np.arange(40) * 0.3)[:, None]

        def moved(steps: int) -> np.ndarray:
            model = Model(robot, Servo.of(jnp.array([30.0]), jnp.array([1.0]), steps=steps))
            # Mass and bias are of a sample's middle: short samples leave the steps within them to be seen.
            return np.asarray(dn.rollout(model, np.zeros(1), np.zeros(1), np.repeat(goal, 10, axis=0), 0.002).q)

        exact = moved(64)
        wrong = [float(np.abs(moved(steps) - exact).max()) for steps in (2, 4)]
    assert 3.0 < wrong[0] / wrong[1] < 5.5


def test_friction_leaves_a_band_that_grows_with_load(joint):
    """Lifted and lowered to one goal, a joint rests above and below it by its friction, which load raises."""
    goals = np.concatenate(
        [np.linspace(-0.5, 0, 200), np.zeros(200), np.linspace(0, 0.5, 200), np.linspace(0.5, 0, 200), np.zeros(200)]
    )
    kp, mu = 30.0, 0.3

    def rests(*parts):
        model = Model(joint, combine(Servo.of(kp, 3.0), *parts))
        q = np.asarray(dn.rollout(model, np.array([-0.5]), np.zeros(1), goals[:, None], 0.02).q[:, 0])
        return q[399], q[-1]

    gravity = float(dn.gravity_torque(joint, np.zeros(1))[0])
    from_one, from_other = rests(actuators.Coulomb.of(0.6))
    assert from_other - from_one == pytest.approx(2 * 0.6 / kp, rel=0.02)
    from_one, from_other = rests(Load.of(mu, 0.0))
    # kp e (1 ± μ) = −gravity at both ends of the band
    wanted = abs(gravity / kp) * (1 / (1 - mu) - 1 / (1 + mu))
    assert from_other - from_one == pytest.approx(wanted, rel=0.05)


def test_play_lets_a_joint_fall_by_itself_and_no_farther(joint):
    kp = 200.0
    goal = np.zeros((400, 1))
    ends = []
    for play in (0.0, 0.05):
        model = Model(joint, combine(Servo.of(kp, 5.0), Play.of(play)))
        ends.append(float(dn.rollout(model, np.zeros(1), np.zeros(1), goal, 0.01).q[-1, 0]))
    assert abs(ends[1] - ends[0]) == pytest.approx(0.05, rel=0.02)


def test_a_table_holds_what_a_servo_presses_on_it(joint):
    """The tip ends at the table's height, less what the spring gives, and the joint off its goal."""
    table = Table(jnp.asarray(0.9), jnp.asarray(3e4), jnp.asarray([[0.6, 0.0, 0.0]]), (0,))
    free, touching = (Model(joint, Servo.of(30.0, 3.0), each) for each in (None, table))
    goal = np.full((400, 1), 0.6)
    tips = []
    for model in (free, touching):
        q = dn.rollout(model, np.zeros(1), np.zeros(1), goal, 0.01).q[-1]
        tips.append(float(dn.forward_kinematics(joint, q)[0, 2] @ np.array([0.6, 0, 0, 1])))
    assert tips[0] < 0.7
    assert tips[1] == pytest.approx(0.9, abs=2e-3)


def test_leads_undo_lags():
    """A ramp followed at a distance of kd/kp is followed at none with a lead as long."""
    robot = random_robot(random_tree(0, 1), 0)
    robot = jax.tree.map(jnp.asarray, robot)
    ramp = np.linspace(0, 1, 400)[:, None]
    dt, kp, kd = 0.01, 5000.0, 500.0
    off = []
    for parts in ((), (Lead.of(kd / kp),)):
        model = Model(robot, combine(Servo.of(kp, kd), *parts))
        off.append(float(ramp[-1, 0] - dn.rollout(model, np.zeros(1), np.zeros(1), ramp, dt).q[-1, 0]))
    assert off[0] > 0.02
    assert abs(off[1]) < 0.003


def test_a_gain_scales_the_stiffness_of_a_servo_and_zero_lets_go(joint):
    """Under half the gain it droops twice as far; without torque it falls as a pendulum does, braked by nothing."""
    servo = replace(Servo.of(np.array([40.0]), np.array([2.0])), reference=(200.0,))
    model = Model(joint, combine(servo, Delay.of(0.4, 1)))
    goal, start = np.zeros((300, 1)), np.zeros((1,))
    ends = {}
    for gain in (None, 200.0, 100.0):
        ends[gain] = float(dn.rollout(model, start, np.zeros(1), goal, 0.01, gain=gain).q[-1, 0])
    assert ends[None] == ends[200.0]
    droops = [np.asarray(dn.gravity_torque(joint, np.array([end])))[0] / 40.0 for end in (ends[200.0], ends[100.0])]
    assert ends[200.0] == pytest.approx(-droops[0], rel=1e-3)
    assert ends[100.0] == pytest.approx(-2 * droops[1], rel=1e-3)
    gains = np.where(np.arange(300)[:, None] < 150, 200.0, 0.0)
    let_go = dn.rollout(model, start, np.zeros(1), goal, 0.01, gain=gains)
    free = dn.rollout(Model(joint), let_go.q[150], let_go.qd[150], goal[150:], 0.01)
    assert np.allclose(let_go.q[150:], free.q, atol=0.05)
    assert np.ptp(np.asarray(free.q)) > 3
    both = dn.rollout(model, np.zeros((2, 1)), np.zeros((2, 1)), goal, 0.01, gain=np.stack([gains, 0 * gains + 200]))
    assert np.allclose(both.q[0], let_go.q, atol=1e-6) and float(both.q[1, -1, 0]) == pytest.approx(ends[200.0])


def test_gains_where_there_is_nothing_to_set_are_refused(joint):
    goal = np.zeros((5, 1))
    with pytest.raises(ValueError, match="of servos"):
        dn.rollout(Model(joint), np.zeros(1), np.zeros(1), goal, 0.01, gain=1.0)
    with pytest.raises(ValueError, match="integrator auto"):
        dn.rollout(Model(joint, Servo.of(1.0)), np.zeros(1), np.zeros(1), goal, 0.01, "rk4", gain=1.0)


def test_a_limit_holds_back_what_a_servo_would_give(joint):
    """It falls through a goal that it has not the torque to hold, and reaches one that takes less."""
    heavy = float(np.abs(dn.gravity_torque(joint, np.zeros(1)))[0])
    still = np.zeros(1)
    for share, holds in ((1.2, True), (0.8, False)):
        strong = combine(Servo.of(500.0, 20.0), Limit.of(share * heavy, 50.0))
        q = np.asarray(dn.rollout(Model(joint, strong), still, still, np.zeros((300, 1)), 0.01).q)
        assert (np.abs(q).max() < 0.05) == holds
    u, qd = jnp.array([3.0]), jnp.array([25.0])
    assert float(Limit.of(2.0, 50.0).drive(u, jnp.zeros(1), qd)[0]) == pytest.approx(
        1.0
    )  # half of it at half the speed


def test_names_and_refusals():
    made = actuators.make(WHOLE, 3)
    assert made.energy_class == "bounded"
    assert made.loop is not None
    assert made.delay.shape == (3,)
    parts = {type(part) for part in made.parts}
    assert parts == {Delay, Play, Servo, Stribeck, Load}
    for name, words in {"load+stribeck": "servo", "servo+motor": "motor", "servo+gain": "gain"}.items():
        with pytest.raises(ValueError, match=words):
            actuators.make(name, 2)


def test_roll_outs_are_differentiable():
    robot = random_robot(random_tree(3, 4), 3)
    goals = 0.3 * np.sin(np.arange(40)[:, None] * 0.1 + np.arange(4))
    with jax.enable_x64(True):
        robot = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), robot)

        def end(kp):
            model = Model(
                robot,
                combine(
                    Servo.of(kp * jnp.full(4, 300.0), 30.0 * jnp.ones(4)), Load.of(0.1 * jnp.ones(4), 0.1 * jnp.ones(4))
                ),
            )
            return jnp.sum(dn.rollout(model, goals[0], np.zeros(4), goals, 0.01).q[-1])

        slope = jax.grad(end)(1.0)
        wanted = (end(1 + 1e-6) - end(1 - 1e-6)) / 2e-6
    assert float(slope) == pytest.approx(float(wanted), rel=1e-3)


def test_a_differential_rubs_by_sums_and_differences_of_neighbours():
    """Joints that turn together turn one motor of the pair and leave the other at rest."""
    made = actuators.make("servo+differential", 3)
    part = next(part for part in made.parts if isinstance(part, Coupling))
    assert part.rows == ((1, 1, 0), (1, -1, 0), (0, 1, 1), (0, 1, -1))
    alone = Coupling.of(np.array([1.0, 2.0, 0.0, 0.0]), 0.0, part.rows, 0.01)
    together, against = (alone.shared(jnp.zeros(3), jnp.array(qd)) for qd in ([1.0, 1.0, 0.0], [1.0, -1.0, 0.0]))
    assert np.allclose(together, [-1, -1, 0], atol=1e-3)
    assert np.allclose(against, [-2, 2, 0], atol=1e-3)
    with pytest.raises(ValueError, match="no neighbour"):
        actuators.make("servo+differential", 1)
    with pytest.raises(ValueError, match="already contains"):
        actuators.make("differential+coupling", 3)
