"""Identifiability: the right number of combinations, their formulas and values, honest intervals, plain words."""

import json
from dataclasses import replace
from importlib.metadata import files
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pinocchio
import pytest
from robots import depth_first, in_pinocchio, random_robot, random_tree, relative
from scipy.signal import lfilter

import diffnea as dn
from diffnea import actuators, dynamics, kernels, parameters
from diffnea.identify.determine.analyse import analyse
from diffnea.identify.determine.combinations import Identifiability
from diffnea.identify.determine.structure.base_parameters import Echelon, echelon
from diffnea.identify.determine.structure.coordinates import Coordinates, physical_coordinates
from diffnea.identify.determine.structure.slopes import structural_jacobian
from diffnea.identify.determine.uncertainty.covariance import noise, uncertainty
from diffnea.identify.problem.linearised import Linearised, Motion
from diffnea.models import Model, acceleration

DT = 1 / 250
LAW = 1e-10


class Problem:
    """A robot with viscous friction whose accelerations are measured with noise, linearised at the truth."""

    def __init__(self, robot: dn.Robot, learn: tuple[str, ...], actuator=None):
        virtual = parameters.encode(robot, nearest=True)
        masks = parameters.learnable(virtual, learn)
        actuator = actuators.Viscous.of(robot.damping) if actuator is None else actuator
        moving = jax.tree.map(lambda leaf, free: np.full(leaf.shape, free), actuator, actuator.learned())
        first = parameters.pack(virtual, masks)
        self.theta = np.concatenate([first, parameters.pack(actuator, moving)])
        self.labels = (*parameters.labels(virtual, masks), *(f"a{i}" for i in range(len(self.theta) - len(first))))
        self.learn, self.robot = learn, robot

        def unpack(theta):
            body = parameters.unpack(virtual, masks, theta[: len(first)]).robot()
            return Model(body, parameters.unpack(actuator, moving, theta[len(first) :]))

        def sample(theta, q, qd, u):
            def qdd(theta):
                return acceleration(unpack(theta), q, qd, u)

            return qdd(theta), jax.jacrev(qdd)(theta)

        self.unpack, self.run = unpack, jax.jit(jax.vmap(kernels.compile(sample), (None, 0, 0, 0)))

    def linearised(self, q, qd, u, level=0.01, dt: float | None = DT, segments=1, seed=0) -> Linearised:
        qdd, jacobian = (np.asarray(x) for x in self.run(jnp.asarray(self.theta), q, qd, u))
        time, n = qdd.shape
        scale = qdd.std(axis=0) + 1e-12
        residuals = level * np.random.default_rng(seed).normal(size=time * n)
        rows = (jacobian / scale[:, None]).reshape(time * n, -1)
        part = np.arange(time) * segments // time
        return Linearised(
            theta=self.theta,
            jacobian=rows,
            residuals=residuals,
            joint=np.tile(np.arange(n), time),
            sample=np.repeat(np.arange(time) - np.searchsorted(part, part), n),
            segment=np.repeat(part, n),
            labels=self.labels,
            unpack=self.unpack,
            learned=(*self.learn, "actuator"),
            dt=dt,
            motion=Motion(q.min(axis=0), q.max(axis=0), np.full(n, 1e-4), np.any(u != 0, axis=0)),
        )


def states(system, count=300, seed=0):
    rng, limits = np.random.default_rng(seed), system.limits
    q = rng.uniform(limits.lower, limits.upper, (count, 2))
    return q, *(rng.uniform(-1, 1, (count, 2)) * np.asarray(top) for top in (limits.velocity, limits.effort))


def values(found: Identifiability, kind="inertia") -> dict[str, float]:
    """The base parameters, or the coefficients of actuators."""
    return {
        each.formula: each.value
        for each in found.combinations
        if each.kind == kind and each.base == (kind != "actuator")
    }


def said(found: Identifiability) -> list[str]:
    return [str(each) for each in found.unknown]


@pytest.fixture(scope="module")
def cartpole() -> Problem:
    return Problem(dn.systems.cartpole().robot, ("inertia",))


@pytest.fixture(scope="module")
def cartpole_found(cartpole) -> Identifiability:
    return analyse(cartpole.linearised(*states(dn.systems.cartpole())))


@pytest.fixture(scope="module")
def furuta_found() -> Identifiability:
    system = dn.systems.furuta()
    return analyse(Problem(system.robot, ("inertia",)).linearised(*states(system)))


def test_the_cartpole_has_four_inertial_combinations(cartpole_found):
    pole = 0.127
    wanted = {
        "m(cart) + m(pole)": 0.57 + pole,
        "m·c_x(pole)": 0.0,
        "m·c_z(pole)": -0.16825 * pole,
        "J_yy(pole)": 1.1983e-3 + pole * 0.16825**2,
    }
    assert values(cartpole_found) == pytest.approx(wanted, abs=1e-12)
    assert cartpole_found.rank == cartpole_found.structural_rank == 6 and cartpole_found.unknowns == 22
    frictions = {"viscous friction(cart)": 5.4, "viscous friction(pole)": 0.0024}
    assert values(cartpole_found, "actuator") == pytest.approx(frictions)


def test_a_combination_that_is_an_entry_of_the_mass_matrix_says_so(cartpole_found):
    meanings = {each.formula: each.meaning for each in cartpole_found.combinations}
    assert meanings["m(cart) + m(pole)"] == "M[cart, cart]" and meanings["J_yy(pole)"] == "M[pole, pole]"


def test_what_the_cartpole_hides_is_said_in_plain_words(cartpole_found):
    assert set(said(cartpole_found)) == {
        "inertia and centre of mass of the cart: it never turns",
        "inertia about other axes than y and centre of mass along y of the pole: it only turns about y",
        "how the mass is split between cart and pole: only their sum enters",
    }


def test_with_learned_kinematics_the_cartpole_still_has_four(cartpole_found):
    system = dn.systems.cartpole()
    found = analyse(Problem(system.robot, ("inertia", "kinematics")).linearised(*states(system)))
    assert list(values(found)) == [
        "M[cart, cart]",
        "M[pole, pole]",
        "M[cart, pole] at zero",
        "M[cart, pole] at pole = 90°",
    ]
    mass = np.asarray(dn.mass_matrix(system.robot, np.zeros(2)))
    assert list(values(found).values())[:3] == pytest.approx([mass[0, 0], mass[1, 1], mass[0, 1]])
    assert len([each for each in found.combinations if each.base or each.kind == "actuator"]) == 7
    assert found.rank == 7
    assert "how the mass is split between cart and pole: only their sum enters" in said(found)
    # The same data tell the same of the mass matrix, whatever else is learned.
    assert found.combinations[0].std == pytest.approx(cartpole_found.combinations[0].std, rel=0.1)


def test_the_furuta_pendulum_has_eight_and_the_reasons(furuta_found):
    assert len(values(furuta_found)) == 8 and furuta_found.rank == 10
    sums = "J_zz(arm) + 0.007225·m(pendulum) + 0.17·m·c_x(pendulum) + J_zz(pendulum)"
    assert values(furuta_found)[sums] == pytest.approx(5.72e-5 + 0.085**2 * 0.024 + 2.7e-7)
    assert "J_yy(pendulum) − J_zz(pendulum)" in values(furuta_found)
    reason = "mass and centre of mass of the arm: it turns about a vertical axis, where gravity takes no torque"
    assert reason in said(furuta_found)


def test_directions_do_not_move_the_accelerations(cartpole, cartpole_found):
    directions = cartpole_found.directions
    assert directions.shape == (16, 22)
    assert relative(directions @ directions.T, np.eye(16)) < LAW
    jacobian = cartpole.linearised(*states(dn.systems.cartpole())).jacobian
    assert np.abs(jacobian @ directions.T).max() < 1e-9 * np.abs(jacobian).max()


def test_the_interval_of_any_quantity(cartpole_found):
    total = cartpole_found.interval(lambda model: jnp.sum(model.robot.inertia.mass))
    first = cartpole_found.combinations[0]
    assert total.determined and (total.value, total.std) == pytest.approx((first.value, first.std))
    assert not cartpole_found.interval(lambda model: model.robot.inertia.mass[0]).determined
    entry = cartpole_found.interval(lambda model: dynamics.crba(model.robot, jnp.array([0.1, 0.3]))[0, 1])
    assert entry.determined and entry.std > 0


def test_a_combination_can_be_read_off_another_model(cartpole_found):
    robot = dn.systems.cartpole().robot
    heavy = Model(replace(robot, inertia=jax.tree.map(lambda x: 2 * x, robot.inertia)), actuators.Viscous.of(1.0, 2))
    found = [each.of(heavy) for each in cartpole_found.combinations]
    wanted = [1.0 if each.kind == "actuator" else 2 * each.value for each in cartpole_found.combinations]
    assert found == pytest.approx(wanted, abs=1e-12)


def test_units_of_a_parameter_do_not_matter(cartpole, cartpole_found):
    problem = cartpole.linearised(*states(dn.systems.cartpole()))
    factor = np.logspace(-4, 4, len(problem.theta))
    scaled = replace(
        problem,
        theta=problem.theta / factor,
        jacobian=problem.jacobian * factor,
        unpack=lambda theta: problem.unpack(theta * jnp.asarray(factor)),
    )
    found = analyse(scaled)
    assert values(found) == pytest.approx(values(cartpole_found), abs=1e-9)
    for mine, other in zip(found.combinations, cartpole_found.combinations, strict=True):
        assert mine.std == pytest.approx(other.std, rel=1e-6)


def test_a_joint_that_never_moved_is_named(cartpole):
    q, qd, u = states(dn.systems.cartpole())
    q[:, 1], qd[:, 1] = 0.0, 0.0
    found = analyse(cartpole.linearised(q, qd, u))
    assert found.rank < found.structural_rank == 6
    assert "viscous friction of pole: it never moved in these recordings" in said(found)
    assert "could be by other recordings" in str(found)


def test_noise_hides_what_it_is_larger_than(cartpole):
    loud = analyse(cartpole.linearised(*states(dn.systems.cartpole()), level=100.0))
    assert loud.rank < 6


def test_rotor_and_link_about_the_same_axis_are_not_told_apart():
    system = dn.systems.cartpole()
    robot = replace(system.robot, armature=jnp.array([0.1, 0.001]))
    found = analyse(Problem(robot, ("inertia", "armature")).linearised(*states(system)))
    assert "J_yy(pole) and armature(pole) apart: only their sum enters" in said(found)
    assert values(found)["m(cart) + m(pole) + armature(cart)"] == pytest.approx(0.797)
    assert len(values(found)) == 4


def test_a_motor_hides_the_scale_of_all_forces():
    system = dn.systems.cartpole()
    actuator = actuators.Gain.of(jnp.array([1.5, 1.0]), driven=(True, False))
    found = analyse(Problem(system.robot, ("inertia",), actuator).linearised(*states(system)))
    assert "(m(cart) + m(pole)) / command gain(cart)" in values(found)
    assert values(found)["(m(cart) + m(pole)) / command gain(cart)"] == pytest.approx(0.697 / 1.5)
    assert "unknown-scale-gain" in [each.code for each in found.unknown]


def test_bodies_without_extent_change_no_formula(cartpole_found):
    system = dn.systems.cartpole()
    mass, arm = 0.127, -0.2
    pole = [mass, 0, 0, mass * arm, mass * arm**2, 0, mass * arm**2, 0, 0, 0]
    points = dn.Inertia.from_parameters(jnp.array([[0.57] + 9 * [0.0], pole]))
    found = analyse(Problem(replace(system.robot, inertia=points), ("inertia",)).linearised(*states(system)))
    assert list(values(found)) == list(values(cartpole_found))
    assert values(found)["J_yy(pole)"] == pytest.approx(mass * arm**2)


def test_without_any_command_only_ratios_are_known(cartpole):
    q, qd, u = states(dn.systems.cartpole())
    found = analyse(cartpole.linearised(q, qd, 0 * u))
    assert found.rank == 5 and found.structural_rank == 6
    assert values(found)["(m(cart) + m(pole)) / viscous friction(cart)"] == pytest.approx(0.697 / 5.4)
    assert all(each.lower <= each.value <= each.upper for each in found.combinations)
    assert "unknown-scale-undriven" in [each.code for each in found.unknown]


@pytest.mark.slow
def test_a_network_beside_the_physics_leaves_what_is_known_readable():
    system = dn.systems.cartpole()
    network = actuators.make("nn-residual", 2, key=jax.random.key(0))
    found = analyse(Problem(system.robot, ("inertia",), network).linearised(*states(system)))
    assert list(values(found)) == ["m(cart) + m(pole)", "m·c_x(pole)", "m·c_z(pole)", "J_yy(pole)"]
    assert {each.kind for each in found.combinations} == {"inertia", "gravity"}


def test_data_that_never_change_determine_nothing(cartpole):
    problem = cartpole.linearised(*states(dn.systems.cartpole()))
    found = analyse(replace(problem, jacobian=0 * problem.jacobian))
    assert found.rank == 0 and found.combinations == () and found.structural_rank == 6
    assert found.directions.shape == (22, 22)


def test_fewer_rows_than_unknowns_are_no_error(cartpole):
    problem = cartpole.linearised(*states(dn.systems.cartpole(), 2))
    found = analyse(problem)
    assert found.rank <= 4 and all(np.isfinite(each.std) for each in found.combinations)


def test_the_table_is_text_and_the_result_is_json(cartpole_found):
    lines = str(cartpole_found).splitlines()
    assert lines[0] == "6 of 22 learned numbers are determined: 4 inertial, 2 of actuators"
    assert any(line.startswith("m(cart) + m(pole)") and line.endswith("= M[cart, cart]") for line in lines)
    assert json.loads(json.dumps(cartpole_found.to_dict()))["rank"] == 6


def test_first_come_quantities_that_an_engineer_reads(cartpole_found):
    first = [each for each in cartpole_found.combinations if not each.base]
    assert cartpole_found.combinations[: len(first)] == tuple(first)
    names = [each.formula for each in first]
    assert names[:2] == ["inertia felt by cart", "inertia felt by pole"]
    assert names[-2:] == ["viscous friction(cart)", "viscous friction(pole)"]
    assert "gravity at pole, mid pose" in names and "mass of all links" in names
    gravity = first[names.index("gravity at pole, mid pose")]
    assert gravity.unit == "N·m" and gravity.meaning.startswith("at q = (")
    assert all(each.lower < each.value < each.upper for each in first)


def test_a_joint_that_moved_is_never_said_to_stand_still(cartpole):
    """One number with a huge effect hides no other: each is compared with the noise, not with the largest."""
    problem = cartpole.linearised(*states(dn.systems.cartpole()))
    place = cartpole.labels.index("a0")
    jacobian = np.array(problem.jacobian)
    jacobian[:, place] *= 1e12
    found = analyse(replace(problem, jacobian=jacobian))
    assert not {"unknown-never-moved", "unknown-unseen"} & {each.code for each in found.unknown}
    assert found.rank == 6


def test_a_joint_that_was_never_commanded_is_named():
    system = dn.systems.cartpole()
    gain = actuators.combine(actuators.Gain.of(jnp.array([1.5, 1.0])), actuators.Viscous.of(jnp.array([5.4, 0.0024])))
    robot = replace(system.robot, limits=replace(system.robot.limits, effort=jnp.array([6.0, 1.0])))
    q, qd, u = states(system)
    u[:, 1] = 0.0
    found = analyse(Problem(robot, ("inertia",), gain).linearised(q, qd, u))
    assert ("unknown-never-commanded", "pole") in [(each.code, each.subject) for each in found.unknown]


def test_an_interval_that_says_nothing_is_not_listed_as_known(cartpole):
    """Loud noise: a positive number whose interval begins at zero, and sums wider than their own size, are unknown."""
    for level in (0.3, 3.0, 30.0):
        found = analyse(cartpole.linearised(*states(dn.systems.cartpole()), level=level))
        for each in found.combinations:
            assert each.lower > 0 or each.kind == "gravity" or "m·c" in each.formula
    codes = {each.code for each in found.unknown}
    assert codes & {"unknown-at-most", "unknown-too-wide", "unknown-too-weak", "unknown-not-separable"}


def test_no_sum_mixes_units_of_actuators_and_bodies(cartpole):
    q, qd, u = states(dn.systems.cartpole())
    qd[:] = 0.5 * q  # velocities tell nothing that positions do not
    found = analyse(cartpole.linearised(q, qd, u, level=0.3))
    sums = [each.formula for each in found.combinations if each.kind != "kinematics"]
    assert not any("friction" in each and ("m(" in each or "J_" in each or "m·c" in each) for each in sums)


def test_rotors_of_the_file_do_not_determine_masses_where_gains_are_learned():
    system = dn.systems.cartpole()
    robot = replace(system.robot, armature=jnp.array([0.1, 0.0]))
    actuator = actuators.Gain.of(jnp.array([1.5, 1.0]), driven=(True, False))
    found = analyse(Problem(robot, ("inertia",), actuator).linearised(*states(system)))
    assert [(each.code, each.values["what"]) for each in found.unknown if each.code == "unknown-scale-file"] == [
        ("unknown-scale-file", "the armature of cart")
    ]
    masses = [each for each in found.combinations if each.kind in ("inertia", "gravity")]
    assert masses and all("/ command gain(cart)" in each.formula for each in masses)


def test_notes_of_what_is_unknown_have_codes_and_sentences(cartpole_found):
    assert {each.code for each in cartpole_found.unknown} == {
        "unknown-never-turns",
        "unknown-one-axis",
        "unknown-split-mass",
    }


def _panda() -> dn.Robot:
    path = next(Path(str(file.locate())) for file in files("example-robot-data") or () if file.name == "panda.urdf")
    with pytest.warns(UserWarning, match="treated as independent"):
        return dn.load_robot(path, couplings=False)


def _pinocchio_rank(robot: dn.Robot) -> int:
    """The rank of Pinocchio's own regressor on random states."""
    model, rng = in_pinocchio(robot), np.random.default_rng(1)
    data, n = model.createData(), model.nv
    rows = [
        pinocchio.computeJointTorqueRegressor(model, data, *rng.normal(size=(3, n)) * np.array([[2.0], [2.0], [5.0]]))
        for _ in range(60)
    ]
    found = np.concatenate(rows)
    norms = np.linalg.norm(found, axis=0)
    seen = norms > 1e-10 * norms.max()
    return int(np.linalg.matrix_rank(found[:, seen] / norms[seen], tol=1e-8))


def _base_parameters(robot: dn.Robot) -> tuple[Coordinates, Echelon]:
    """Those of the robot, with its inertial parameters themselves as what is learned."""

    def unpack(theta):
        return Model(replace(robot, inertia=dn.Inertia.from_parameters(theta.reshape(-1, 10))))

    theta, labels = np.asarray(dn.inertial_parameters(robot)), tuple(str(i) for i in range(10 * robot.num_links))
    coordinates = physical_coordinates(unpack, Model(robot), theta, labels, 1e-7)
    rows = structural_jacobian(unpack, Model(robot), theta, coordinates, False) * coordinates.scales
    return coordinates, echelon(rows, 1e-7)


def _six_joint_arm() -> dn.Robot:
    """Axes and offsets of an elbow arm with a spherical wrist."""
    tree = dn.Tree((-1, 0, 1, 2, 3, 4), ("revolute",) * 6, tuple("abcdef"), tuple("ABCDEF"))
    robot = random_robot(tree, 1)
    axis = np.array([[0, 0, 1], [0, 1, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0]], float)
    place = np.array([[0, 0, 0.3], [0, 0, 0.1], [0, 0, 0.4], [0.2, 0, 0], [0.2, 0, 0], [0.1, 0, 0]])
    turn = np.broadcast_to(np.eye(3), (6, 3, 3))
    pose = dn.Transform(jnp.asarray(turn), jnp.asarray(place))
    return replace(robot, axis=jnp.asarray(axis), placement=pose, gravity=jnp.array([0.0, 0.0, -9.81]))


@pytest.mark.parametrize(
    "make, count",
    [
        (_six_joint_arm, 36),  # the number of an elbow arm with a spherical wrist
        (lambda: replace(_six_joint_arm(), gravity=jnp.zeros(3)), None),
        (lambda: random_robot(depth_first(random_tree(5, 4)), 5), None),
    ],
)
def test_the_structural_rank_of_a_tree_is_that_of_pinocchios_regressor(make, count):
    robot = make()
    found = len(_base_parameters(robot)[1].independent)
    assert found == _pinocchio_rank(robot) and found == (count or found)


@pytest.mark.slow
def test_the_panda_arm_has_the_known_number_of_base_parameters():
    robot = _panda()
    coordinates, found = _base_parameters(robot)
    arm = [i for i in found.independent if coordinates.entries[i].index < 7]
    assert len(arm) == 43 and len(found.independent) == _pinocchio_rank(robot)


def test_a_tilted_axis_counts_however_small_the_tilt():
    """An angle of π written with twelve digits: 106 base parameters, as Pinocchio's columns have in their own units."""
    name = "anymal-kinova.urdf"
    path = next(Path(str(file.locate())) for file in files("example-robot-data") or () if file.name == name)
    robot = dn.load_robot(path, allow_unphysical=True)
    model, rng = pinocchio.buildModelFromUrdf(str(path)), np.random.default_rng(0)
    data, n = model.createData(), model.nv
    states_ = (rng.uniform(-np.pi, np.pi, n) if k == 0 else rng.normal(size=n) for _ in range(60) for k in range(3))
    triples = zip(*[states_] * 3, strict=True)
    rows = np.concatenate([pinocchio.computeJointTorqueRegressor(model, data, *each) for each in triples])
    norms = np.linalg.norm(rows, axis=0)
    values = np.linalg.svd(rows[:, norms > 0] / norms[norms > 0], compute_uv=False)
    rank = int(np.argmax(values[:-1] / np.maximum(values[1:], 1e-300) > 1e6)) + 1
    assert len(_base_parameters(robot)[1].independent) == rank == 106


def test_independent_columns_make_up_the_others():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, 4)) @ rng.normal(size=(4, 9)) * np.logspace(-6, 6, 9)
    found = echelon(A, 1e-9)
    assert found.independent == (0, 1, 2, 3)
    size = np.abs(A).max(axis=0)
    assert np.abs((A - A[:, found.independent] @ found.rows) / size).max() < LAW
    assert np.abs(A @ found.null.T / size[4:]).max() < LAW


def _coverage(correlation: float, smooth: int, trials: int = 150) -> float:
    """How often intervals of a linear problem hold the truth, under noise with a memory."""
    rng, inside = np.random.default_rng(0), []
    time, n, p = 900, 2, 4
    clock = np.arange(time) * 0.02
    joint, sample = np.tile(np.arange(n), time), np.repeat(np.arange(time), n)
    for _ in range(trials):
        waves = np.sin(clock[:, None, None] * rng.uniform(0.5, 6.0, (n, p)) + rng.uniform(0, 6, (n, p)))
        jacobian = waves.reshape(-1, p)
        white = rng.normal(size=(time + 300, n))
        kicks = lfilter([np.sqrt(1 - correlation**2)], [1, -correlation], white, axis=0)[300 - smooth + 1 :]
        errors = np.stack([np.convolve(row, np.ones(smooth) / smooth, "valid") for row in kicks.T], axis=1).ravel()
        estimate = np.linalg.lstsq(jacobian, errors)[0]
        residuals = errors - jacobian @ estimate
        segment = np.zeros_like(sample)
        found = noise(residuals, joint, sample, segment, p, True)
        spread = uncertainty(jacobian, residuals, joint, sample, segment, found, True)
        half = spread.quantile() * spread.std(np.eye(p))
        inside.append(np.abs(estimate) < half)
    return float(np.mean(inside))


@pytest.mark.parametrize("correlation, smooth", [(0.0, 1), (0.9, 1), (0.0, 15)])
def test_intervals_hold_the_truth_also_when_noise_has_a_memory(correlation, smooth):
    assert 0.90 <= _coverage(correlation, smooth) <= 0.98


def test_samples_without_order_are_independent_but_their_joints_are_not():
    rng, inside = np.random.default_rng(0), []
    for _ in range(200):
        jacobian = np.repeat(rng.normal(size=(200, 3)), 2, axis=0)
        errors = np.repeat(rng.normal(size=200), 2)
        estimate = np.linalg.lstsq(jacobian, errors)[0]
        residuals = errors - jacobian @ estimate
        joint, sample, segment = np.tile([0, 1], 200), np.repeat(np.arange(200), 2), np.zeros(400, int)
        found = noise(residuals, joint, sample, segment, 3, False)
        spread = uncertainty(jacobian, residuals, joint, sample, segment, found, False)
        inside.append(np.abs(estimate) < spread.quantile() * spread.std(np.eye(3)))
    assert 0.92 <= np.mean(inside) <= 0.98
