"""Actuators: what they can never do to the energy, how parts combine, and that they run as kernels."""

import logging
from functools import lru_cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from robots import random_robot, random_tree, relative

import diffnea as dn
from diffnea import actuators, kernels
from diffnea.actuators import Combined, Delay, Gain, Ideal, Motor, Offset, Stribeck, Viscous, combine, for_robot, make

LAW = 1e-10
# Central differences with steps of 1e-6.
DIFFERENCES = 1e-6

KEY = jax.random.key(0)
JOINTS = 2
DRIVEN = (True, False)
MIXED = (True, False)  # one joint turns, one slides
CLASSES = {
    "ideal": "conserving",
    "viscous": "bounded",
    "stribeck": "bounded",
    "nn-friction": "bounded",
    "nn-residual": "unbounded",
    "nn-torque": "unbounded",
    "motor": "bounded",
    "offset": "conserving",
    "delay": "conserving",
    "gain": "conserving",
    "coupling": "bounded",
    "grease": "bounded",
    "constant": "conserving",
    "ripple": "conserving",
    "servo": "bounded",
    "servo+load+play+lead": "bounded",
    "servo+profile": "bounded",
    "servo+integral+limit": "unbounded",
    "servo+nn-residual": "unbounded",
    "offset+delay+gain": "conserving",
    "offset+nn-residual": "unbounded",
    "motor+stribeck+offset+delay": "bounded",
    "gain+motor+nn-torque": "unbounded",
    "stribeck+coupling+offset": "bounded",
}
SAFE = ["ideal", "viscous", "stribeck", "grease", "nn-friction"]
COMBINED = [f"motor+{name}+offset" for name in SAFE]
DRAWS = 1_000_000
BLOCK = 250_000


def made(name, key=KEY, **sizes):
    sizes |= {"reduction": [3.0, 20.0]} if "ripple" in name else {}
    return make(name, JOINTS, key=key, revolute=MIXED, driven=DRIVEN, **sizes)


def states(count, seed=0):
    rng = np.random.default_rng(seed)
    u, q, qd = (jnp.asarray(rng.normal(size=(count, JOINTS)) * scale) for scale in (3.0, 2.0, 5.0))
    return u, q, qd


def redrawn(actuator, rng, count):
    """Each leaf drawn anew `count` times, with sizes from 1e-300 to 1e300, and every third draw of usual size."""

    def draw(leaf):
        size = rng.uniform(-300, 300, (count, *leaf.shape))
        size[::3] = rng.uniform(-3, 3, size[::3].shape)
        return jnp.asarray(rng.choice([-1.0, 1.0], size.shape) * 10.0**size)

    return jax.tree.map(draw, actuator)


@lru_cache
def power_of_losses(structure):
    """`q̇ · (τ(0) + ∂V/∂q)` joint by joint: what an actuator without command gives to the model's own energy."""

    def power(actuator, q, qd):
        zero = jnp.zeros_like(q)
        torque = actuator(zero, q, qd)
        return qd * (torque + jax.grad(actuator.potential)(q)), torque, actuator.drive(zero, q, qd)

    return jax.jit(jax.vmap(kernels.compile(power)))


@pytest.mark.parametrize("name", SAFE + COMBINED)
def test_without_command_no_parameters_and_no_state_add_energy(name):
    rng = np.random.default_rng(len(name))
    power = power_of_losses(name)
    actuator = made(name, width=3)
    for block in range(DRAWS // BLOCK):
        _, q, qd = states(BLOCK, block)
        qd = jnp.where(jnp.asarray(rng.random(qd.shape)) < 0.05, 0.0, qd)  # at rest too
        gained, torque, driven = power(redrawn(actuator, rng, BLOCK), q, qd)
        assert np.isfinite(np.asarray(torque)).all()
        assert (np.asarray(gained) <= 0).all()
        assert (np.asarray(driven) == 0).all()


@pytest.mark.parametrize("name", SAFE + COMBINED)
def test_single_precision_stays_finite_and_adds_no_energy(name):
    rng = np.random.default_rng(1)
    _, q, qd = states(1000)
    actuator = jax.tree.map(lambda x: jnp.clip(x, -3e38, 3e38), redrawn(made(name, width=3), rng, 1000))
    single = [jax.tree.map(lambda x: x.astype(jnp.float32), part) for part in (actuator, q, qd)]
    gained, torque, _ = power_of_losses(name)(*single)
    assert torque.dtype == jnp.float32 and np.isfinite(np.asarray(torque)).all()
    assert (np.asarray(gained) <= 0).all()


@pytest.mark.parametrize("name", [*SAFE, *COMBINED, "nn-residual", "nn-torque"])
def test_gradients_are_finite_whatever_the_parameters(name):
    rng = np.random.default_rng(2)
    u, q, qd = states(300)
    qd = qd.at[::5].set(0.0)
    slopes = jax.vmap(jax.grad(kernels.compile(lambda a, u, q, qd: jnp.sum(a(u, q, qd))), (0, 2, 3)))
    found = slopes(redrawn(made(name, width=3), rng, 300), u, q, qd)
    assert all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(found))


@pytest.mark.parametrize("name", CLASSES)
def test_energy_classes(name):
    assert made(name).energy_class == CLASSES[name]


@pytest.mark.parametrize("name", CLASSES)
def test_the_torque_is_the_sum_of_what_it_consists_of(name):
    actuator = made(name)
    u, q, qd = (row[0] for row in states(1))
    lost = actuator.resistance(q, qd)
    steps = 1e-6 * jnp.eye(JOINTS)
    slope = jnp.stack([(actuator.potential(q + s) - actuator.potential(q - s)) / 2e-6 for s in steps])
    wanted = (
        actuator.drive(u, q, qd) - slope - lost.dry * jnp.sign(qd) - lost.viscous * qd + actuator.residual(u, q, qd)
    )
    wanted = wanted + actuator.shared(q, qd)
    assert relative(actuator(u, q, qd), wanted) < DIFFERENCES


@pytest.mark.parametrize("name", ["coupling", "motor+stribeck+coupling+offset"])
def test_coupled_motors_add_no_energy_whatever_their_numbers(name):
    rng = np.random.default_rng(3)
    _, q, qd = states(BLOCK)
    against = jnp.stack([qd[:, 0], -qd[:, 0]], 1)  # where the motor stands still
    qd = jnp.where(jnp.asarray(rng.random(qd.shape[:1]) < 0.2)[:, None], against, qd)
    gained, torque, driven = power_of_losses(name)(redrawn(made(name), rng, BLOCK), q, qd)
    assert np.isfinite(np.asarray(torque)).all() and (np.asarray(driven) == 0).all()
    # One joint may be pushed while another is held back: the sum is what counts, up to rounding of what cancels in it.
    total, parts = np.asarray(gained).sum(1), np.abs(np.asarray(gained)).sum(1)
    assert (total <= 1e-12 * parts).all() and (np.asarray(gained) > 0).any()


def test_grease_takes_the_root_of_the_speed():
    qd = jnp.array([4.0, -0.25, 1e-9])
    lost = actuators.Grease.of(jnp.array([2.0, 3.0, 1e6]))(0 * qd, qd, qd)
    assert relative(lost[:2], jnp.array([-4.0, 1.5])) < 1e-7  # rounded off near rest, where its slope would be infinite
    assert abs(lost[2]) < 1e-3


def test_coupled_motors_by_hand_and_what_is_refused():
    u, q, qd = (jnp.array(row) for row in ([0.0, 0.0, 0.0], [0.1, 0.2, 0.3], [1.0, 2.0, -0.5]))
    motor = actuators.Coupling.of(0.3, 0.2, [[0, 1, 1], [1, -2, 0]], slow=0.1, root=0.4)
    lost = [0.3 * np.tanh(v / 0.1) + 0.4 * v / (v**2 + 0.01) ** 0.25 + 0.2 * v for v in (1.5, -3.0)]
    assert relative(motor(u, q, qd), -jnp.array([lost[1], lost[0] - 2 * lost[1], lost[0]])) < LAW
    assert relative(make("coupling", 3).shared(q, 0 * qd), 0 * qd) == 0
    assert make("coupling", 3).rows == ((0.0, 1.0, 1.0),)
    assert make("coupling", 3, coupled=[[1, 0, -1]]).rows == ((1.0, 0.0, -1.0),)
    with pytest.raises(ValueError, match="one row a motor"):
        actuators.Coupling.of(0.1, 0.1, [[0, 0]])
    with pytest.raises(ValueError, match="slow is 0"):
        actuators.Coupling.of(0.1, 0.1, [[1, 1]], slow=0)
    with pytest.raises(ValueError, match="no motor in common"):
        make("coupling", 1)


def test_roll_outs_with_coupled_motors_lose_energy():
    robot = random_robot(random_tree(1, 3), seed=2)
    model = dn.Model(robot, make("coupling", 3, effort=5.0))
    run = dn.rollout(model, jnp.array([0.3, -0.2, 0.4]), jnp.array([1.0, -2.0, 3.0]), None, 0.005, steps=400)
    energy = np.asarray(model.energy(run.q, run.qd))
    assert (np.diff(energy) <= 1e-12 * np.abs(energy).max()).all() and energy[-1] < energy[0] - 1e-6


def test_paper_formulas():
    u, q, qd = (row[0] for row in states(1))
    mu, f_s, f_d, nu = 0.3, 0.5, 0.2, 0.7  # the paper's letters
    assert relative(Viscous.of(mu, JOINTS)(u, q, qd), u - mu * qd) < LAW
    wanted = u - jnp.sign(qd) * (f_s + f_d * jnp.exp(-nu * qd**2)) - mu * qd
    assert relative(Stribeck.of(f_s + f_d, f_s, mu, nu, JOINTS)(u, q, qd), wanted) < LAW
    network = made("nn-friction")
    dry = network.resistance(q, qd).dry
    assert relative(network(u, q, qd), u - jnp.sign(qd) * dry) < LAW and bool(jnp.all(dry > 0))


def test_physical_values_come_back():
    values = jnp.array([1e-5, 0.3, 2e4])
    stribeck = Stribeck.of(values, 2 * values, 3 * values, 0.1 * values)
    found = [stribeck.static, stribeck.kinetic / 2, stribeck.viscous / 3, stribeck.shape[1:] * 10]
    assert all(relative(one, values[-len(one) :]) < LAW for one in found)
    motor = Motor.of(values, 2.0, gear=-3.0, emf_constant=0.5)
    assert relative(motor.torque_per_volt, -3 * values / 2) < LAW
    assert relative(motor.back_emf, 9 * values * 0.5 / 2) < LAW
    assert relative(Gain.of(2.0, 5.0).limit, 5.0) < 1e-5
    assert relative(Delay.of(jnp.array([0.5, 2.5]), 2).delay, jnp.array([0.5, 2.5])) < LAW


def test_no_friction_is_nearly_none_and_can_be_learned_away_from():
    start, true = Viscous.of(0.0, 1), 0.2
    assert float(start.viscous[0]) < 2e-6
    qd = jnp.linspace(-2.0, 2.0, 21)

    def error(raw):
        return (Viscous(raw).viscous[0] - true) * qd

    raw = start.raw
    first = second = jnp.zeros_like(raw)
    slope = jax.jit(jax.grad(lambda raw: jnp.mean(error(raw) ** 2)))
    for step in range(1, 601):  # ADAM
        g = slope(raw)
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
        raw = raw - 0.03 * (first / (1 - 0.9**step)) / (jnp.sqrt(second / (1 - 0.999**step)) + 1e-12)
    assert abs(float(Viscous(raw).viscous[0]) - true) < 0.02

    raw, damping = start.raw, 1.0
    for _ in range(40):  # Levenberg-Marquardt
        J, e = jax.jacfwd(error)(raw), error(raw)
        tried = raw - (J.T @ e) / (jnp.sum(J**2) + damping * 1e-12)
        better = float(jnp.sum(error(tried) ** 2)) < float(jnp.sum(e**2))
        raw, damping = (tried, damping / 10) if better else (raw, damping * 10)
    assert abs(float(Viscous(raw).viscous[0]) - true) < 1e-8


def test_parts_add_up_and_follow_one_another():
    u, q, qd = (row[0] for row in states(1))
    gain, motor = Gain.of(3.0, num_joints=JOINTS), Motor.of(0.1, 2.0, 5.0, num_joints=JOINTS)
    friction, offset = Stribeck.of(0.2, 0.1, 0.3, num_joints=JOINTS), _offset(1)
    whole = combine(offset, friction, motor, Delay.of(1.5, JOINTS), gain)
    zero = jnp.zeros(JOINTS)
    wanted = motor(gain(u, q, qd), q, qd) + friction(zero, q, qd) + offset(zero, q, qd)
    assert relative(whole(u, q, qd), wanted) < LAW
    assert relative(whole.potential(q), offset.potential(q)) < LAW
    assert whole.delay.tolist() == pytest.approx([1.5, 1.5]) and whole.most_delay == 8


def test_a_torque_network_sees_the_command_behind_gain_and_motor():
    u, q, qd = (row[0] for row in states(1))
    network, gain = made("nn-torque"), Gain.of(3.0, num_joints=JOINTS)
    assert relative(combine(network, gain)(u, q, qd), network(3 * u, q, qd)) < LAW


def test_names_in_any_order_make_the_same_actuator():
    one, other = made("motor+nn-friction+offset+delay"), made("delay + offset+nn-friction+motor")
    assert bool(eqx.tree_equal(one, other))


def test_seeds():
    network = made("nn-residual")
    assert bool(eqx.tree_equal(network, made("nn-residual", jax.random.key(0))))
    assert not bool(eqx.tree_equal(network, made("nn-residual", jax.random.key(1))))
    weights = network.networks.weights[0]
    assert not bool(jnp.allclose(weights[0], weights[1]))  # each joint its own
    assert weights.shape == (JOINTS, 8, 3) and made("nn-residual", width=5).networks.weights[0].shape[1] == 5


@pytest.mark.parametrize("name", ["nn-friction", "nn-residual", "nn-torque"])
def test_networks_start_near_the_ideal_actuator_and_turn_with_the_joint(name):
    actuator = made(name)
    u, q, qd = states(50)
    torque = jax.vmap(actuator)(u, q, qd)
    assert float(jnp.max(jnp.abs(torque - u))) < 0.3  # of an effort of 1
    turned = jax.vmap(actuator)(u, q + jnp.array([[2 * np.pi, 0.0]]), qd)
    assert relative(turned, torque) < LAW
    assert relative(jax.vmap(actuator)(u, q + 1.0, qd), torque) > 1e-6


def test_network_friction_is_smooth_where_the_velocity_passes_zero():
    actuator, q = made("nn-friction"), jnp.array([0.3, -0.2])
    dry = jax.jacfwd(lambda qd: actuator.resistance(q, qd).dry)
    left, right = dry(jnp.full(JOINTS, -1e-9)), dry(jnp.full(JOINTS, 1e-9))
    assert relative(left, right) < 1e-6 and bool(jnp.all(jnp.isfinite(dry(jnp.zeros(JOINTS)))))


def _offset(seed, harmonics=3):
    rng = np.random.default_rng(seed)
    empty = Offset.none(JOINTS, harmonics, (2 * np.pi, 4.0))
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape)), empty)


def test_the_offset_torque_is_its_series():
    offset, q = _offset(3), jnp.array([0.4, -1.2])
    phase = jnp.array([1.0, np.pi / 2])[:, None] * jnp.arange(1.0, 4.0)[None] * q[:, None]
    wanted = offset.constant + jnp.sum(offset.cosine * jnp.cos(phase) + offset.sine * jnp.sin(phase), 1)
    zero = jnp.zeros(JOINTS)
    assert relative(offset(zero, q, zero), wanted) < LAW
    assert relative(Offset.none(JOINTS, 0)(zero, q, zero) + 1, jnp.ones(JOINTS)) < LAW


def test_a_joint_that_nothing_drives_gets_no_torque_and_no_back_emf():
    u, q, qd = (row[0] for row in states(1))
    for actuator in (made("motor"), made("gain"), made("gain+motor", saturation=2.0)):
        assert float(actuator.drive(u, q, qd)[1]) == 0.0 and float(actuator.drive(u, q, qd)[0]) != 0.0
        assert float(actuator.drive(u.at[1].set(jnp.nan), q, qd)[1]) == 0.0
    lost = made("motor").resistance(q, qd).viscous
    assert float(lost[1]) == 0.0 and float(lost[0]) > 0.0


def test_saturation_is_smooth_linear_for_small_commands_and_never_exceeded():
    gain = Gain.of(2.0, 5.0, num_joints=1)
    zero = jnp.zeros(1)
    out = jax.vmap(lambda u: gain.drive(u, zero, zero))(jnp.array([[0.1], [2.25], [1e3], [-1e9]]))[:, 0]
    assert relative(out[0], 0.2) < 1e-8 and relative(out[1], 4.5) < 0.05
    assert np.all(np.abs(out) <= 5.00001) and float(out[3]) == pytest.approx(-5.0, rel=1e-5)


def test_a_delay_stays_within_its_range_whatever_is_learned():
    for raw in (-1e300, -1.0, 0.0, 1e300):
        delay = Delay(jnp.array([raw]), JOINTS, 4).delay
        assert delay.shape == (JOINTS,) and bool(jnp.all((delay >= 0) & (delay <= 4)))
    each = made("delay", shared_delay=False)
    assert each.raw.shape == (JOINTS,) and made("delay").raw.shape == (1,)
    assert 0 < float(made("delay").delay[0]) < 1


@pytest.mark.skipif(dn.backends()["cpu"] != "active", reason="no kernels here")
@pytest.mark.parametrize("name", [*SAFE, "nn-residual", "nn-torque", "gain+motor+stribeck+offset+delay"])
def test_every_actuator_is_a_kernel_in_value_and_gradient(name, caplog):
    actuator = made(name, saturation=3.0, width=4, depth=1)
    u, q, qd = states(9)

    def work(actuator, u, q, qd):
        return jnp.sum(actuator(u, q, qd) * jnp.cos(q))

    def total(function, actuator, u, q, qd):
        return jnp.sum(jax.vmap(partial(function, actuator))(u, q, qd))

    with caplog.at_level(logging.DEBUG, "diffnea.kernels"):
        fast = jax.jit(jax.value_and_grad(partial(total, kernels.compile(work)), (0, 1, 2, 3)))(actuator, u, q, qd)
    assert not [record for record in caplog.records if "XLA" in record.getMessage()]
    slow = jax.jit(jax.value_and_grad(partial(total, work), (0, 1, 2, 3)))(actuator, u, q, qd)
    for one, other in zip(jax.tree.leaves(fast), jax.tree.leaves(slow), strict=True):
        assert np.abs(np.asarray(one) - np.asarray(other)).max(initial=0.0) < LAW


@pytest.mark.parametrize(
    "name, kwargs, message",
    [
        ("steam", {}, 'unknown part "steam"; use ideal, viscous, stribeck, nn-friction'),
        ("stribek", {}, r'unknown part "stribek" \(did you mean "stribeck"\?\); use ideal'),
        ("viscous+", {}, 'unknown part ""'),
        ("viscous+viscous", {}, 'part "viscous" is named twice'),
        ("viscous+stribeck", {}, '"stribeck" already contains "viscous"; leave out "viscous"'),
        ("nn-residual+nn-torque", {}, '"nn-torque" already contains "nn-residual"'),
        ("nn-friction", {"key": None}, "networks start at random; give key="),
        ("gain", {"driven": (True,)}, "driven has 1 entries; give 2"),
        ("viscous", {"revolute": (True,)}, r"revolute has shape \(1,\); give 2"),
        ("viscous", {"effort": -1.0}, "effort is -1; give a finite number above zero"),
        ("nn-torque", {"width": 0}, "width 0 and depth 2; give whole numbers from 1 on"),
        ("delay", {"most_delay": 0}, "the most is 0 samples"),
        ("offset", {"harmonics": -1}, "-1 harmonics; give a whole number from 0 on"),
        ("gain", {"saturation": -1.0}, "limit is -1; give a finite number that is not negative"),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_line(name, kwargs, message):
    with pytest.raises(ValueError, match=message) as caught:
        make(name, JOINTS, **{"key": KEY, **kwargs})
    assert "\n" not in str(caught.value)


def test_many_starts_at_once():
    many = jax.jit(jax.vmap(lambda key: made("motor+nn-torque+delay", key, width=2, depth=1)))(jax.random.split(KEY, 3))
    u, q, qd = states(3)
    torque = jax.vmap(lambda actuator, *sample: actuator(*sample))(many, u, q, qd)
    assert many.num_joints == JOINTS and torque.shape == (3, JOINTS)


def test_other_refusals():
    with pytest.raises(TypeError, match='unknown size "widht"; use width, depth'):
        make("viscous", 2, widht=3)
    with pytest.raises(ValueError, match="viscous is -0.1; give a finite number"):
        Viscous.of(-0.1, 2)
    with pytest.raises(ValueError, match=r"viscous has shape \(3,\); give one number, or 2"):
        Viscous.of(jnp.ones(3), 2)
    with pytest.raises(ValueError, match=r"parts for \[1, 2\] joints"):
        combine(Viscous.of(0.1, 1), Ideal(2))
    with pytest.raises(ValueError, match="use combine"):
        Combined((Viscous.of(0.1, 2), Delay.of(1.0, 2)))
    with pytest.raises(ValueError, match=r"delay is \[-1.0\] samples; give from 0 to 8"):
        Delay.of(-1.0, 2)


def test_a_robot_gives_the_start():
    tree = random_tree(3, 4)
    robot = random_robot(tree, 3)
    numbers = (jnp.array([0.4, 0.0, 2.0, 0.1]), jnp.array([0.0, 0.3, 0.2, 0.1]), jnp.array([2.0, 0.0, -3.0, 1.0]))
    robot = eqx.tree_at(lambda r: (r.damping, r.friction, r.gear), robot, numbers)
    stribeck = for_robot("stribeck", robot)
    assert relative(stribeck.viscous[jnp.array([0, 2, 3])], jnp.array([0.4, 2.0, 0.1])) < LAW
    assert relative(stribeck.kinetic[1:], numbers[1][1:]) < LAW
    inertia = np.diagonal(np.asarray(dn.mass_matrix(robot, jnp.zeros(4))))
    assert 0.01 * inertia[1] < float(stribeck.viscous[1]) < inertia[1]
    gain = for_robot("gain", robot)
    assert gain.drive(jnp.ones(4), jnp.zeros(4), jnp.zeros(4)).tolist() == [2.0, 0.0, -3.0, 1.0]
    motor = for_robot("motor", robot)
    assert np.sign(np.asarray(motor.torque_per_volt)).tolist() == [1.0, 0.0, -1.0, 1.0]
    stall = np.abs(np.asarray(12.0 * motor.torque_per_volt))
    assert relative(stall, np.where([1, 0, 1, 1], np.asarray(robot.limits.effort), 0.0)) < 1e-3
    friction = for_robot("nn-friction", robot, key=KEY).resistance(jnp.zeros(4), jnp.zeros(4)).dry
    assert np.all(np.abs(np.asarray(friction)[1:] / np.asarray(numbers[1])[1:] - 1) < 0.3)
    fewer = eqx.tree_at(lambda r: r.limits.effort, robot, jnp.array([5.0, 5.0, 0.0, 5.0]))
    assert for_robot("gain", fewer).driven == (True, False, False, True)
    unknown = eqx.tree_at(lambda r: r.limits.effort, robot, jnp.zeros(4))
    assert for_robot("gain", unknown).driven == (True, False, True, True)
    assert for_robot("gain", robot, driven=(False, True, True, True)).driven == (False, True, True, True)
    for name in actuators.NAMES:
        name = f"servo+{name}" if name in actuators.names.OF_SERVOS else name
        sizes = {"reduction": 3.0} if name == "ripple" else {}
        assert for_robot(name, robot, key=KEY, **sizes).num_joints == 4


def test_tables_have_a_row_a_quantity():
    rows = made("motor+stribeck+offset+delay+gain", harmonics=1).physical()
    assert all(row.values.shape == (JOINTS,) for row in rows)
    units = {row.name: (row.unit_of(True), row.unit_of(False)) for row in rows}
    assert units["viscous friction"] == ("N·m·s/rad", "N·s/m")
    assert units["static friction"] == ("N·m", "N") and units["torque per volt"] == ("N·m/V", "N/V")
    assert {"torque constant", "winding resistance", "gear ratio", "input delay", "torque of sine 1"} <= set(units)
