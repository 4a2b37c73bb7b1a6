"""Roll-outs: what comes back, in which shapes, under recorded, absent and feedback input; derivatives; bad input."""

import logging
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from mujoco import rollout as mujoco_rollout

from diffnea import actuators, kernels, save_robot, systems
from diffnea.actuators import Stribeck, Viscous
from diffnea.models import FeedForward, Model
from diffnea.simulate import Rollout, rk4_step, rollout, safe_step
from diffnea.simulate.arguments import checked

LAW = 1e-10
WITNESS = 1e-6
# Central differences of a value that 500 steps have rounded.
DIFFERENCES = 1e-4
DT = 1 / 250
GIB = 2**30


@pytest.fixture(scope="module")
def robot():
    return systems.furuta().robot


@pytest.fixture(scope="module")
def model(robot):
    return Model(robot, rubbing(viscous=(3e-4, 1e-5)))


@pytest.fixture(scope="module")
def commands():
    return jnp.asarray(np.random.default_rng(0).normal(size=(60, 2)) * [[0.01, 0.0]])


def rubbing(viscous):
    """Friction of the size that small pendulums have."""
    static, kinetic = np.array([9e-4, 5e-5]), np.array([6e-4, 3e-5])
    return Stribeck.of(static, kinetic, np.array(viscous), 4.0)


Q0, QD0 = jnp.array([0.3, 2.0]), jnp.array([2.0, -5.0])


def close(found, wanted, tolerance=LAW):
    return np.allclose(np.asarray(found), np.asarray(wanted), rtol=tolerance, atol=tolerance)


def equal(found: Rollout, wanted: Rollout):
    return close(found.q, wanted.q) and close(found.qd, wanted.qd)


def test_rows_are_states_and_the_commands_given_there(model, commands):
    run = rollout(model, Q0, QD0, commands, DT)
    assert run.q.shape == run.qd.shape == run.u.shape == (60, 2)
    assert np.array_equal(run.q[0], Q0) and np.array_equal(run.qd[0], QD0) and np.array_equal(run.u, commands)
    assert close(run.time, np.arange(60) * DT)
    assert run.diverged_at is None


def test_a_roll_out_is_one_step_after_the_other(model, commands):
    run, dt = rollout(model, Q0, QD0, commands, DT), jnp.asarray(DT)
    q, qd = Q0, QD0
    for k in range(5):
        assert close(run.q[k], q) and close(run.qd[k], qd)
        q, qd = kernels.compile(safe_step)(model, q, qd, commands[k], dt)


@pytest.mark.parametrize("integrator", ["auto", "rk4"])
def test_batches_are_single_roll_outs_side_by_side(model, commands, integrator):
    q0 = jnp.asarray(np.asarray(Q0) + np.arange(6.0).reshape(3, 2, 1))
    u = jnp.stack([commands, 2 * commands])
    run = rollout(model, q0, QD0, u, DT, integrator=integrator)
    assert run.q.shape == (3, 2, 60, 2) and run.diverged_at is None
    for i, j in ((0, 0), (2, 1)):
        alone = rollout(model, q0[i, j], QD0, u[j], DT, integrator=integrator)
        assert close(run.q[i, j], alone.q) and close(run.u[i, j], alone.u)


def test_models_side_by_side(model, commands):
    factors = jnp.array([0.5, 1.0, 2.0])
    several = jax.vmap(
        lambda factor: eqx.tree_at(lambda m: m.actuator.raw_viscous, model, model.actuator.raw_viscous * factor)
    )
    runs = jax.vmap(lambda model: rollout(model, Q0, QD0, commands, DT))(several(factors))
    assert runs.q.shape == (3, 60, 2)
    assert np.all(np.isinf(runs.diverged_at))
    assert close(runs.q[1], rollout(model, Q0, QD0, commands, DT).q)
    assert not close(runs.q[0], runs.q[2], 1e-6)


def test_a_law_that_plays_a_recording_gives_the_recorded_roll_out(model, commands):
    law = Player(commands, jnp.asarray(DT))
    assert equal(rollout(model, Q0, QD0, law, DT, steps=60), rollout(model, Q0, QD0, commands, DT))


class Player(eqx.Module):
    """A law that looks only at the clock."""

    commands: jax.Array
    dt: jax.Array

    def __call__(self, t, q, qd):
        return self.commands[jnp.round(t / self.dt).astype(int)]


def test_gradients_in_a_law_that_kernels_cannot_have(model, commands):
    """It reads a row by a number it computes: the loop is XLA's, over one kernel a step."""
    steps, weights = 12, jnp.asarray(np.random.default_rng(5).normal(size=(12, 2)))

    def cost(u):
        return jnp.sum(weights * rollout(model, Q0, QD0, u, DT, steps=steps).q)

    by_law = jax.grad(lambda commands: cost(Player(commands, jnp.asarray(DT))))(commands[:steps])
    recorded = jax.grad(lambda commands: jnp.sum(weights * rollout(model, Q0, QD0, commands, DT).q))(commands[:steps])
    assert close(by_law, recorded)


def test_a_law_sees_the_state_of_its_row(model):
    run = rollout(
        model, Q0, QD0, lambda t, q, qd: jnp.stack([-1e-3 * q[0] - 1e-4 * qd[0] + 1e-3 * t, 0 * t]), DT, steps=40
    )
    assert close(run.u[:, 0], -1e-3 * run.q[:, 0] - 1e-4 * run.qd[:, 0] + 1e-3 * run.time)


def test_no_command_is_a_command_of_zero(model):
    assert equal(rollout(model, Q0, QD0, None, DT, steps=60), rollout(model, Q0, QD0, jnp.zeros((60, 2)), DT))


@pytest.mark.parametrize("late", [0.0, 1.0, 2.25])
def test_a_delay_shifts_what_arrives(robot, commands, late):
    part = actuators.drives.Delay.of(late, 2)
    late = float(part.delay[0])  # a learned delay can come close to 0, and not reach it
    whole, share = int(late), late - int(late)
    padded = jnp.concatenate([jnp.broadcast_to(commands[:1], (3, 2)), commands])
    arrived = (1 - share) * padded[3 - whole : 63 - whole] + share * padded[2 - whole : 62 - whole]
    delayed = Model(robot, part)
    wanted = rollout(Model(robot), Q0, QD0, arrived, DT)
    assert equal(rollout(delayed, Q0, QD0, commands, DT), wanted)
    law = Player(commands, jnp.asarray(DT))
    found = rollout(delayed, Q0, QD0, law, DT, steps=60)
    assert equal(found, wanted)
    assert close(found.u, commands)


def test_runge_kutta_meets_mujoco(robot, commands, tmp_path):
    """MuJoCo's RK4 with viscous joints and the same commands."""
    viscous = np.array([3e-4, 1e-5])
    path = tmp_path / "furuta.xml"
    plain = replace(robot, damping=jnp.asarray(viscous), friction=jnp.zeros(2), gear=jnp.ones(2))
    save_robot(plain, path, fresh=True)
    spec = mujoco.MjSpec.from_file(str(path))
    spec.option.timestep, spec.option.integrator = DT, mujoco.mjtIntegrator.mjINT_RK4
    witness = spec.compile()
    start = np.concatenate([[0.0], Q0, QD0])
    data = mujoco.MjData(witness)
    states, _ = mujoco_rollout.rollout(witness, data, start[None], np.asarray(commands)[None])
    run = rollout(Model(robot, Viscous.of(viscous)), Q0, QD0, commands, DT, integrator="rk4")
    assert close(run.q[1:], states[0, :-1, 1:3], WITNESS)
    assert close(run.qd[1:], states[0, :-1, 3:5], WITNESS)


def test_unbounded_models_get_runge_kutta(robot, commands):
    free = Model(robot, actuators.make("nn-residual", 2, key=jax.random.key(1)))
    assert free.energy_class == "unbounded"
    assert equal(rollout(free, Q0, QD0, commands, DT), rollout(free, Q0, QD0, commands, DT, integrator="rk4"))


def test_a_plain_network_rolls_out(commands):
    rows = jax.random.normal(jax.random.key(0), (4, 50, 2))
    network = FeedForward.for_samples(*rows, jax.random.key(1))
    run = rollout(network, Q0, QD0, commands, DT)
    q, qd = rk4_step(network, Q0, QD0, commands[0], jnp.asarray(DT))
    assert close(run.q[1], q) and close(run.qd[1], qd)


# Divergence ------------------------------------------------------------------------------------------------------


def test_divergence_is_reported_and_the_last_good_state_held(robot):
    """Runge-Kutta's method on viscous friction far too stiff for it."""
    stiff = Model(robot, Viscous.of(np.full(2, 0.1)))
    qd0 = jnp.array([[0.0, 0.0], [1.0, -1.0]])
    level = replace(robot, gravity=jnp.zeros(3))
    run = rollout(replace_robot(stiff, level), jnp.zeros(2), qd0, None, DT, integrator="rk4", steps=50)
    assert run.diverged_at is not None and np.isinf(run.diverged_at[0]) and 0 < run.diverged_at[1] < 50 * DT
    assert np.all(np.isfinite(run.q)) and np.all(np.isfinite(run.qd))
    row = round(float(run.diverged_at[1]) / DT)
    q = np.asarray(run.q[1])
    assert np.all(q[row:] == q[row - 1]) and np.any(q[row - 1] != q[row - 2])
    alone = rollout(replace_robot(stiff, level), jnp.zeros(2), qd0[1], None, DT, integrator="rk4", steps=50)
    assert alone.diverged_at is not None and close(alone.diverged_at, run.diverged_at[1])
    assert rollout(replace_robot(stiff, level), jnp.zeros(2), qd0, None, DT, steps=50).diverged_at is None


def replace_robot(model, robot):
    return Model(robot, model.actuator)


@pytest.mark.slow
def test_gradients_stay_finite_where_a_roll_out_diverges(robot):
    def length(qd0):
        run = rollout(Model(robot, Viscous.of(np.full(2, 0.1))), Q0, qd0, None, DT, integrator="rk4", steps=50)
        return jnp.sum(run.q**2)

    assert np.all(np.isfinite(jax.grad(length)(QD0)))


# Derivatives -----------------------------------------------------------------------------------------------------


@jax.jit
def value(values):
    run = rollout(*values, DT)
    return jnp.sum(run.q[-1] * jnp.array([1.0, 0.3])) + jnp.mean(run.qd[:, 1])


gradient = jax.jit(jax.grad(value))


def unmoved(values):
    """Rotations and axes, which must stay such; and limits, some of which are infinite."""
    robot = values[0].robot
    return robot.placement.rotation, robot.axis, robot.limits


@pytest.mark.slow
def test_gradients_meet_differences_over_two_seconds(model):
    """Joints turn round, none sticks. Where one begins to, the roll-out has a corner and no derivative."""
    values = (model, Q0, jnp.array([8.0, 30.0]), jnp.zeros((500, 2)).at[:, 0].set(2e-4))
    qd = np.asarray(rollout(*values, DT).qd)
    assert np.all(qd != 0) and np.any(qd[1:] * qd[:-1] < 0)
    found, rng = gradient(values), np.random.default_rng(0)
    for _ in range(3):
        way = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape) * np.maximum(np.abs(x), 1e-3)), values)
        way = eqx.tree_at(unmoved, way, jax.tree.map(jnp.zeros_like, unmoved(way)))
        there, back = (value(jax.tree.map(lambda x, w, s=s: x + s * w, values, way)) for s in (1e-7, -1e-7))
        slope = sum(jax.tree.leaves(jax.tree.map(lambda g, w: jnp.sum(g * w), found, way)))
        assert close(slope, (there - back) / 2e-7, DIFFERENCES)


def test_gradients_are_finite_at_rest(model):
    found = gradient((model, jnp.zeros(2), jnp.zeros(2), jnp.zeros((500, 2))))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(found))


@pytest.mark.slow
def test_forward_derivatives_agree_with_reverse(model):
    values = (model, Q0, QD0, jnp.zeros((500, 2)))
    pushed = jax.jvp(lambda qd0: value((model, Q0, qd0, values[3])), (QD0,), (jnp.ones(2),))[1]
    assert close(pushed, jnp.sum(gradient(values)[2]), 1e-8)


def test_the_gradient_of_ten_thousand_steps_is_small_in_memory(model):
    """Each step keeps its state and nothing else."""
    shapes = (model, Q0, QD0, jax.ShapeDtypeStruct((10_000, 2), float))
    memory = gradient.lower(shapes).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 32 * 10_000 * 4 * 8 < GIB / 64


# Kernels and precision -------------------------------------------------------------------------------------------


def test_steps_are_kernels(model, caplog):
    with caplog.at_level(logging.DEBUG, "diffnea.kernels"):
        for step in (safe_step, rk4_step):
            fast = jax.jit(jax.vmap(kernels.compile(step), (None, 0, None, None, None)))
            fast(model, jnp.stack([Q0, Q0]), QD0, jnp.zeros(2), jnp.asarray(DT))
    assert not [record for record in caplog.records if "runs through XLA" in record.message]


def test_single_precision_stays_single(model, commands):
    single = [jnp.asarray(x, jnp.float32) for x in (Q0, QD0, commands)]
    run = rollout(model, *single, DT)
    assert run.q.dtype == run.qd.dtype == run.time.dtype == jnp.float32
    assert close(run.q, rollout(model, Q0, QD0, commands, DT).q, 1e-4)


# Bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"q0": np.zeros(3)}, r"q0 has shape \(3,\); it must be \(…, 2\)"),
        ({"qd0": np.array([0.0, np.nan])}, r"qd0\[1\] is nan; all numbers must be finite"),
        ({"u": np.zeros(2)}, r"u has shape \(2,\); it must be \(…, time, 2\)"),
        ({"u": np.zeros((0, 2))}, r"u has shape \(0, 2\); give at least one row in time"),
        ({"u": np.full((5, 2), np.inf)}, r"u\[0, 0\] is inf"),
        ({"q0": np.zeros((3, 2)), "qd0": np.zeros((4, 2))}, r"batch axes do not match: q0 \(3,\), qd0 \(4,\), u \(\)"),
        ({"dt": 0.0}, "dt is 0 s; it must be finite and above zero"),
        ({"dt": -0.1}, "dt is -0.1 s"),
        ({"dt": np.zeros(3)}, r"dt has shape \(3,\); give one number"),
        ({"integrator": "euler"}, 'integrator is "euler"; use auto or rk4'),
        ({"u": None}, "steps is None; without recorded commands say how many states"),
        ({"steps": 7}, "steps is 7, and u has 5 rows; leave steps out"),
        ({"u": lambda t, q, qd: q[:1], "steps": 5}, r"the law u\(t, q, qd\) returns shape \(1,\); .* shape \(2,\)"),
        ({"u": lambda t, q, qd: (q, qd), "steps": 5}, "returns a tuple; it must return"),
    ],
)
def test_bad_input_is_one_clear_line(model, change, words):
    good = {"q0": Q0, "qd0": QD0, "u": np.zeros((5, 2)), "dt": DT, "integrator": "auto", "steps": None}
    with pytest.raises(ValueError, match=words) as caught:
        checked(model, **{**good, **change})
    assert "\n" not in str(caught.value)
