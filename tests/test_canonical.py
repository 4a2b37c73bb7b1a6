"""Canonical frames: the same dynamics and the same derivatives, whatever frames a robot came with."""

import gc
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from robots import random_robot, random_state, random_tree
from scipy.spatial.transform import Rotation

import diffnea as dn
from diffnea import batching, dynamics
from diffnea.canonical import Canonical, convert
from diffnea.canonical.frames import Geometry, lumping
from diffnea.kernels.rules.tracer import trace
from diffnea.robot import Tree, nameless

SAMPLES = 5


def tree_of(parents, kinds) -> Tree:
    names = tuple(map(str, range(len(parents))))
    return Tree(tuple(parents), tuple(kinds), names, names)


def tidy() -> dn.Robot:
    """Parallel, coincident, crossing and opposite axes, a sliding joint in the middle, two branches, two roots."""
    tree = tree_of((-1, 0, 1, 2, 1, 4, -1), ("revolute",) * 3 + ("prismatic", "revolute", "prismatic", "revolute"))
    robot = random_robot(tree, 7)
    axis = np.array([[0, 0, 1], [0, 0, 1], [0, 0, -1], [1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]], float)
    place = np.array([[0, 0, 0.3], [0.2, 0, 0], [0, 0, 0.1], [0, 0, 0], [0.1, 0, 0.2], [0, 0.3, 0], [1, 0, 0]], float)
    placement = replace(robot.placement, rotation=jnp.tile(jnp.eye(3), (7, 1, 1)), translation=jnp.asarray(place))
    return replace(robot, placement=placement, axis=jnp.asarray(axis), gravity=jnp.array([0.0, 0.0, -9.81]))


ROBOTS = {
    "tidy": tidy(),
    "random": random_robot(
        tree_of((-1, 0, 1, 1, -1), ("revolute", "prismatic", "revolute", "revolute", "revolute")), 1
    ),
}


def readable(robot, q, qd, tau):
    return jax.vmap(dynamics.forward, (None, 0, 0, 0))(robot, q, qd, tau)


def states(robot) -> tuple[jax.Array, ...]:
    rows = [random_state(robot.num_joints, seed) for seed in range(SAMPLES)]
    return tuple(jnp.asarray(array) for array in np.stack(rows, 1))


def tangent(robot: dn.Robot, gradient: dn.Robot) -> list[jax.Array]:
    """A gradient along rotations and unit axes, where alone it means something."""
    R, G = robot.placement.rotation, gradient.placement.rotation
    turning = jnp.swapaxes(R, 1, 2) @ G
    across = gradient.axis - jnp.sum(gradient.axis * robot.axis, 1, keepdims=True) * robot.axis
    rotation = turning - jnp.swapaxes(turning, 1, 2)
    return jax.tree.leaves(
        (rotation, gradient.placement.translation, across, gradient.inertia, gradient.armature, gradient.gravity)
    )


def close(found, wanted, bound):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        scale = max(float(jnp.max(jnp.abs(b), initial=0.0)), 1e-3)
        assert float(jnp.max(jnp.abs(a - b), initial=0.0)) < bound * scale


@pytest.fixture(scope="module")
def argument():
    """Forward dynamics of a robot that is an argument, traced when the tidy robot was the guess; and of the others."""
    dn.forward_dynamics(ROBOTS["tidy"], *states(ROBOTS["tidy"]))
    return jax.jit(dn.forward_dynamics)


def value_and_slopes(function, robot, q, qd, tau):
    weights = jnp.asarray(np.random.default_rng(0).normal(size=q.shape))
    both = jax.jit(jax.value_and_grad(lambda *given: jnp.sum(weights * function(*given)), (0, 1, 2, 3)))
    return both(robot, q, qd, tau)


@pytest.fixture(scope="module")
def slopes():
    """Of each robot, where its own zeros are the guess: a weighted sum of accelerations, and its gradient."""
    found = {}
    for name, robot in ROBOTS.items():
        dn.forward_dynamics(robot, *states(robot))
        found[name] = value_and_slopes(dn.forward_dynamics, robot, *states(robot))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ROBOTS)
def test_values_and_derivatives_in_every_number_of_an_argument(name, slopes):
    robot, (value, slope) = ROBOTS[name], slopes[name]
    wanted, wanted_slopes = value_and_slopes(readable, robot, *states(robot))
    close(value, wanted, 1e-12)
    close(slope[1:], wanted_slopes[1:], 1e-10)
    close(tangent(robot, slope[0]), tangent(robot, wanted_slopes[0]), 1e-10)


def numbers_of(robot: dn.Robot) -> tuple:
    """What the dynamics depend on."""
    return robot.placement, robot.axis, robot.inertia, robot.armature, robot.gravity


def moved(robot: dn.Robot, seed: int, step: float) -> dn.Robot:
    """Every number of a robot on some way: rotations turned, axes tilted, all others added to."""
    rng = np.random.default_rng(seed)
    placement, axis, *others = jax.tree.map(lambda x: x + step * rng.normal(size=x.shape), numbers_of(robot))
    turn = Rotation.from_rotvec(step * rng.normal(size=axis.shape)).as_matrix()
    placement = replace(placement, rotation=robot.placement.rotation @ jnp.asarray(turn))
    axis = axis / jnp.linalg.norm(axis, axis=1, keepdims=True)
    return replace(robot, placement=placement, axis=axis, inertia=others[0], armature=others[1], gravity=others[2])


@pytest.mark.parametrize("name", ROBOTS)
def test_values_and_slopes_along_a_way_that_changes_every_number(name, slopes):
    """Against central differences; number by number, against the gradient of the readable form, above."""
    robot, (value, slope), state, small = ROBOTS[name], slopes[name], states(ROBOTS[name]), 1e-6
    weights = jnp.asarray(np.random.default_rng(0).normal(size=state[0].shape))
    total = jax.jit(lambda robot, *state: jnp.sum(weights * readable(robot, *state)))
    close(value, total(robot, *state), 1e-12)
    ends = [(moved(robot, 1, h), *(x + h * jnp.cos(x) for x in state)) for h in (small, -small)]
    way = jax.tree.map(lambda a, b: (a - b) / (2 * small), *((numbers_of(end[0]), end[1:]) for end in ends))
    along = zip(jax.tree.leaves((numbers_of(slope[0]), slope[1:])), jax.tree.leaves(way), strict=True)
    there, back = (total(*end) for end in ends)
    close(sum(jnp.sum(a * b) for a, b in along), (there - back) / (2 * small), 1e-7)


def crooked(robot: dn.Robot) -> dn.Robot:
    """Another robot with the same tree, and no zero where this has one."""
    return random_robot(robot.tree, 3)


def test_a_guess_is_used_where_it_is_right_and_only_there(argument):
    """The body for the guessed zeros and the general one, by one compiled function."""
    robot = ROBOTS["tidy"]
    state = states(robot)
    almost = replace(robot, placement=replace(robot.placement, translation=robot.placement.translation + 1e-9))
    for other in (robot, crooked(robot), almost):
        close(argument(other, *state), readable(other, *state), 1e-12)
    form = convert.canonical(robot, lambda part: part, np.float64)
    traced = jax.jit(lambda robot: _matched(robot))
    assert bool(traced(robot)) and not bool(traced(crooked(robot))) and not bool(traced(almost))
    assert isinstance(form, Canonical) and form.guess is None  # a robot whose numbers are there needs none


def _matched(robot):
    return convert.canonical(robot, lambda part: part, np.float64).matches()


def test_a_guess_saves_operations():
    """Else the second body would be for nothing."""
    robot, counts = ROBOTS["tidy"], {}
    structure = convert.structure(robot.tree)
    known = convert.guess(robot.tree) or pytest.fail("no guess")
    form = convert.canonical(robot, lambda part: part, np.float64)
    for name, each in (("general", structure), ("guessed", known)):
        run = batching.with_guesses(dynamics.forward)
        shapes = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), (replace(form, known=each), *(states(robot)))
        )
        shapes = (shapes[0], *(jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in shapes[1:]))
        counts[name] = trace(run, *shapes)[0].num_operations
    assert counts["guessed"] < 0.8 * counts["general"]


def test_robots_side_by_side_under_vmap_and_scan(argument):
    """A batch of robots, each with its own numbers: what is likely for one is not for all."""
    pair = [ROBOTS["tidy"], crooked(ROBOTS["tidy"])]
    robots, state = jax.tree.map(lambda *leaves: jnp.stack(leaves), *pair), states(pair[0])
    found = jax.jit(jax.vmap(argument, (0, None, None, None)))(robots, *state)
    scanned = jax.jit(lambda robots: jax.lax.scan(lambda _, robot: (None, argument(robot, *state)), None, robots)[1])(
        robots
    )
    wanted = jnp.stack([readable(robot, *state) for robot in pair])
    close(found, wanted, 1e-12)
    close(scanned, wanted, 1e-12)


@pytest.mark.parametrize("seed", [0, 3])
def test_random_trees_closed_over(seed):
    """Torques, mass matrix and accelerations of concrete robots, sliding joints with children among them."""
    robot = random_robot(random_tree(seed, 6 + seed), seed)
    q, qd, tau = states(robot)
    close(
        dn.inverse_dynamics(robot, q, qd, tau),
        jax.jit(jax.vmap(dynamics.rnea, (None, 0, 0, 0)))(robot, q, qd, tau),
        1e-12,
    )
    close(dn.mass_matrix(robot, q), jax.jit(jax.vmap(dynamics.crba, (None, 0)))(robot, q), 1e-12)
    close(dn.forward_dynamics(robot, q, qd, tau), jax.jit(readable)(robot, q, qd, tau), 1e-11)


def test_inertia_that_is_learned_in_known_geometry():
    """Frames are found outside, bodies moved inside of what is differentiated."""
    robot, state = ROBOTS["tidy"], states(ROBOTS["tidy"])

    def slopes(function):
        return jax.jit(jax.grad(lambda inertia: jnp.sum(function(replace(robot, inertia=inertia), *state) ** 2)))

    slope = slopes(dn.forward_dynamics)
    close(slope(robot.inertia), slopes(readable)(robot.inertia), 1e-10)
    text = slope.lower(robot.inertia).as_text()
    assert text.count("custom_call @diffnea_") == 2  # forward and backward; bodies are moved by a product with a matrix


def test_bodies_in_known_geometry_are_linear_in_inertias():
    robot = ROBOTS["tidy"]
    inertia, armature = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), (robot.inertia, robot.armature))
    geometry = Geometry(*(np.asarray(x) for x in (robot.placement.rotation, robot.placement.translation, robot.axis)))
    tree = nameless(robot).tree
    found = convert.chosen(tree, geometry)
    wanted = convert._numbers(tree, geometry, inertia, armature, found)[:, convert.POSE :]
    matrix = lumping(tree, geometry, found, robot.inertia)
    close(convert._linear(matrix, robot.inertia, robot.armature), jnp.asarray(wanted), 1e-15)


def test_single_precision():
    """Right angles are found in single precision, too, and results are as exact as that allows."""
    robot = ROBOTS["tidy"]
    state = [x.astype(jnp.float32) for x in states(robot)]
    small = jax.tree.map(lambda x: x.astype(jnp.float32), robot)
    assert bool(jax.jit(lambda robot: convert.canonical(robot, lambda part: part, np.float32).matches())(small))
    close(jax.jit(dn.forward_dynamics)(small, *state), readable(robot, *states(robot)).astype(jnp.float32), 1e-3)


def test_what_is_asked_again_of_a_robot_is_prepared_once(monkeypatch):
    """The second call by hand finds the canonical form of the first; another robot has its own."""
    asked, (q, qd, tau) = [], states(ROBOTS["tidy"])
    make = batching.canonical
    monkeypatch.setattr(batching, "canonical", lambda *given: asked.append(1) or make(*given))
    robot = replace(ROBOTS["tidy"])
    first = dn.forward_dynamics(robot, q, qd, tau)
    assert len(asked) == 1
    assert np.array_equal(dn.forward_dynamics(robot, q, qd, tau), first) and len(asked) == 1
    other = replace(robot, gravity=robot.gravity + 1)
    assert not np.allclose(dn.forward_dynamics(other, q, qd, tau), first) and len(asked) == 2


def test_what_is_remembered_of_a_robot_goes_with_it():
    """Else a process that fits many robots would keep the last thousand."""
    state, tables, counts = states(ROBOTS["tidy"]), (batching._ready, batching._forms, batching._patterns), []
    for _ in range(3):
        robot = jax.tree.map(jnp.copy, ROBOTS["tidy"])
        dn.forward_dynamics(robot, *state)
        assert batching.in_canonical_frames(robot, np.float64) is not None and batching.whole_numbers(robot)
        del robot
        gc.collect()
        counts.append([len(table) for table in tables])
    assert counts[0] == counts[1] == counts[2]  # the geometry of a tree's last robot is the guess for the next


@pytest.mark.parametrize("name", ROBOTS)
def test_energies_are_those_of_the_file_but_for_what_no_joint_lifts(name):
    robot, (q, qd, _) = ROBOTS[name], states(ROBOTS[name])
    form = batching.in_canonical_frames(robot, q.dtype)
    wanted, found = (jax.vmap(dynamics.energies, (None, 0, 0))(one, q, qd) for one in (robot, form))
    close(found.kinetic, wanted.kinetic, 1e-12)
    close(found.potential - found.potential[0], wanted.potential - wanted.potential[0], 1e-11)


def test_a_roll_out_of_an_argument_is_that_of_the_robot_closed_over():
    """Its frames are found where JAX traces, in the kernels and in their gradient alike."""
    robot, rng = ROBOTS["random"], np.random.default_rng(1)
    q, qd, _ = states(robot)
    u = jnp.asarray(rng.normal(size=(SAMPLES, 30, robot.num_joints)))

    def course(robot, u):
        run = dn.rollout(dn.Model(robot), q, qd, u, 2e-3, "rk4")
        return run.q, run.qd

    def total(robot, u):
        return sum(jnp.sum(jnp.sin(x + k)) for k, x in enumerate(course(robot, u)))

    close(jax.jit(course)(robot, u), jax.jit(lambda u: course(robot, u))(u), 1e-12)
    gradients = jax.jit(jax.grad(total, (0, 1)))(robot, u)
    close(gradients[1], jax.jit(lambda u: jax.grad(total, 1)(robot, u))(u), 1e-12)
    ways = jax.tree.map(lambda x: jnp.cos(3 * x), replace(robot.inertia))
    changed = [
        replace(robot, inertia=jax.tree.map(lambda x, d, s=s: x + s * d, robot.inertia, ways)) for s in (1e-6, -1e-6)
    ]
    slope = (total(changed[0], u) - total(changed[1], u)) / 2e-6
    along = sum(jnp.sum(a * b) for a, b in zip(*map(jax.tree.leaves, (gradients[0].inertia, ways)), strict=True))
    close(along, slope, 1e-7)
