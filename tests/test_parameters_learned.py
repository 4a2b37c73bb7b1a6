"""What of a robot is learned: masks, vectors, kernels of them, random starts, and names."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bodies import CENTRED, NOTHING, ROD, arm, definite, draws, everything, links, sized
from robots import random_robot, random_state, random_tree, relative
from scipy.spatial.transform import Rotation

import diffnea as dn
from diffnea import dynamics, kernels, parameters
from diffnea.parameters.inertia import FORMS

BOTH = pytest.mark.parametrize("form", list(FORMS))


@pytest.fixture(scope="module")
def robot() -> dn.Robot:
    return arm()


# What is learned ---------------------------------------------------------------------------------------------------


@BOTH
def test_what_is_not_learned_keeps_its_bits(robot, form):
    virtual = parameters.encode(robot, form)
    masks = parameters.learnable(virtual, ("inertia", "kinematics", "armature"), links=("hand",), joints="elbow")
    vector = parameters.pack(virtual, masks)
    assert vector.shape == (10 + 6 + 1,)
    found = parameters.decode(parameters.unpack(virtual, masks, vector + 0.1))
    own = jax.tree.leaves((robot.inertia, robot.placement, robot.armature))
    new = jax.tree.leaves((found.inertia, found.placement, found.armature))
    for rows, (before, after) in zip([3, 3, 3, 2, 2, 2], zip(own, new, strict=True), strict=True):
        changed = np.any(np.asarray(before != after).reshape(4, -1), axis=1)
        assert changed.tolist() == [i == rows for i in range(4)]
    nothing = parameters.learnable(virtual, ())
    assert eqx.tree_equal(parameters.decode(parameters.unpack(virtual, nothing, jnp.zeros(0))), robot)


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        ({"learn": ("mass",)}, 'learn: there is no "mass"; use any of inertia, kinematics, armature'),
        ({"links": ("foot",)}, 'links: there is no "foot"; use any of post, upper, lower, hand'),
        ({"joints": ("hip",)}, 'joints: there is no "hip"; use any of base, shoulder, elbow, wrist'),
        (
            {"learn": "inertia", "joints": ("elbow",)},
            "joints are named, but learn has no armature or calibration or kinematics",
        ),
        ({"learn": "kinematics", "links": ("hand",)}, "links are named, but learn has no inertia"),
    ],
)
def test_unknown_names_are_refused(robot, choice, says):
    with pytest.raises(ValueError, match=says):
        parameters.learnable(parameters.encode(robot), **choice)


def test_pack_and_unpack_any_module(robot):
    network = eqx.nn.MLP(2, 1, 3, 1, activation=jax.nn.tanh, key=jax.random.key(1))
    virtual = parameters.encode(robot)
    some = {"arm": parameters.learnable(virtual, "inertia", links="hand"), "gain": np.array([True, False, True])}
    masks = {**some, "net": jax.tree.map(eqx.is_inexact_array, network)}
    tree = {"arm": virtual, "gain": jnp.arange(3.0), "net": network}
    vector = parameters.pack(tree, masks)
    assert vector.shape == (10 + 2 + 13,)
    other = jnp.arange(25.0)
    found = parameters.unpack(tree, masks, other)
    assert np.array_equal(parameters.pack(found, masks), other)
    assert found["gain"].tolist() == [10.0, 1.0, 11.0] and found["net"].activation is jax.nn.tanh
    assert np.array_equal(found["arm"].inertia[:3], virtual.inertia[:3])
    slopes = jax.jit(jax.jacfwd(lambda v: parameters.pack(parameters.unpack(tree, masks, v), masks)))(vector)
    assert np.array_equal(slopes, np.eye(25))


@pytest.mark.parametrize(
    ("masks", "says"),
    [
        ({"a": np.ones(2, bool), "b": False}, "its leaf needs bool of shape \\(\\) or \\(3,\\)"),
        ({"a": np.ones(3), "b": False}, "a mask is float64 of shape \\(3,\\)"),
        ({"a": True}, "masks have 1 leaves for 2"),
        ({"a": True, "b": True}, "only arrays of floats are learned"),
    ],
)
def test_wrong_masks_are_refused(masks, says):
    with pytest.raises(ValueError, match=says):
        parameters.pack({"a": jnp.zeros(3), "b": jnp.zeros(2, int)}, masks)


def test_wrong_vector_is_refused():
    with pytest.raises(ValueError, match="vector has shape \\(2,\\); the masks choose 3 numbers"):
        parameters.unpack(jnp.zeros(3), np.ones(3, bool), jnp.zeros(2))


@BOTH
def test_kernels_decode_and_move(robot, form):
    """A kernel from the vector to accelerations, over many vectors, with its derivative, beside finite differences."""
    virtual = parameters.encode(robot, form)
    masks = parameters.learnable(virtual, ("inertia", "kinematics", "armature"), links=("upper", "hand"))
    q, qd, tau = map(jnp.asarray, random_state(4, 0))

    def move_any(virtual, vector, q, qd, tau):
        return dynamics.aba(parameters.decode(parameters.unpack(virtual, masks, vector)), q, qd, tau)

    def move(vector, q, qd, tau):
        return move_any(virtual, vector, q, qd, tau)

    starts = parameters.random_vectors(virtual, masks, jax.random.key(3), 5)
    fast = jax.jit(jax.vmap(kernels.compile(move), (0, None, None, None)))
    robots = [parameters.decode(parameters.unpack(virtual, masks, vector)) for vector in starts]
    wanted = [dn.forward_dynamics(robot, q, qd, tau) for robot in robots]
    assert relative(fast(starts, q, qd, tau), jnp.stack(wanted)) < 1e-10
    single = jax.tree.map(lambda x: x.astype(np.float32), (virtual, starts[0], q, qd, tau))
    assert relative(kernels.compile(move_any)(*single), wanted[0]) < 1e-3  # single precision, and a matrix to solve
    slopes = jax.jit(jax.vmap(jax.jacfwd(kernels.compile(move)), (0, None, None, None)))(starts, q, qd, tau)
    step = 1e-6 * np.random.default_rng(0).normal(size=starts.shape)
    change = (fast(starts + step, q, qd, tau) - fast(starts - step, q, qd, tau)) / 2
    assert relative(jnp.einsum("kij,kj->ki", slopes, jnp.asarray(step)), change) < 1e-6


# Starts ------------------------------------------------------------------------------------------------------------


@BOTH
def test_random_starts_have_the_robots_size_and_nothing_else_of_it(form):
    tree = random_tree(3, 4)
    one = random_robot(tree, 5)
    virtual = parameters.encode(one, form)
    masks = everything(virtual)
    found = parameters.random(virtual, masks, jax.random.key(7))
    same_size = eqx.tree_at(
        lambda v: (v.mass_scale, v.length_scale, v.armature_scale),
        parameters.encode(random_robot(tree, 6), form),
        (virtual.mass_scale, virtual.length_scale, virtual.armature_scale),
    )
    other = parameters.random(same_size, masks, jax.random.key(7))
    assert np.array_equal(parameters.pack(found, masks), parameters.pack(other, masks))
    assert not np.any(parameters.pack(found, masks) == parameters.pack(virtual, masks))


@pytest.mark.parametrize(("mass", "length"), [(1, 1), (1e-3, 1e-2), (1e4, 30)])
@BOTH
def test_many_random_starts_stay_away_from_flat_spots(robot, form, mass, length):
    virtual = parameters.encode(sized(robot, mass, length), form)
    masks = parameters.learnable(virtual)
    vectors = parameters.random_vectors(virtual, masks, jax.random.key(1), 200)
    decode = jax.jit(jax.vmap(lambda v: parameters.decode(parameters.unpack(virtual, masks, v))))
    found = decode(vectors)
    rows = np.asarray(found.inertia.parameters).reshape(-1, 10)
    far = np.linalg.norm(rows[:, 1:4] / rows[:, :1], axis=1) / float(virtual.length_scale)
    assert definite(rows)[0].min() > 1e-4 and 0.29 < far.min() and far.max() < 1.01
    share = rows[:, 0] / (mass * float(np.mean(robot.inertia.mass)))
    assert 0.39 < share.min() and share.max() < 2.6
    assert np.ptp(np.asarray(found.placement.rotation), axis=0).min() > 1.5
    keys = jax.random.split(jax.random.key(1), 200)
    again = jax.vmap(lambda key: parameters.random(virtual, masks, key))(keys)
    assert np.array_equal(again.inertia.reshape(200, -1), vectors[:, :40])


def test_only_what_is_learned_is_random(robot):
    virtual = parameters.encode(robot)
    masks = parameters.learnable(virtual, "inertia", links="hand")
    start = parameters.random(virtual, masks, jax.random.key(0)).robot()
    assert np.array_equal(start.inertia.mass[:3], robot.inertia.mass[:3])
    assert start.inertia.mass[3] != robot.inertia.mass[3]
    assert eqx.tree_equal((start.placement, start.armature), (robot.placement, robot.armature))


def test_scales_of_a_robot_without_lengths_or_masses():
    body = replace(links(CENTRED, CENTRED), placement=dn.Transform(jnp.stack([jnp.eye(3)] * 2), jnp.zeros((2, 3))))
    assert parameters.encode(body).length_scale == 1.0
    weightless = replace(body, inertia=jax.tree.map(jnp.zeros_like, body.inertia))
    assert parameters.encode(weightless).mass_scale == 1.0
    high = dn.Transform(body.placement.rotation, jnp.array([[0.0, 0.0, 5.0], [0.0, 0.0, 0.0]]))
    assert parameters.encode(replace(body, placement=high)).length_scale == 5.0
    rod = replace(links(ROD), placement=jax.tree.map(lambda x: x[:1], high))
    assert parameters.encode(rod).length_scale == pytest.approx(np.sqrt(1 / 3))


def test_armature_is_never_negative_and_can_grow_from_nothing(robot):
    virtual = parameters.encode(replace(robot, armature=jnp.zeros(4)))
    assert np.array_equal(virtual.robot().armature, np.zeros(4))  # not learned: as the file says
    masks = parameters.learnable(virtual, "armature")

    def rotors(vector):
        return parameters.decode(parameters.unpack(virtual, masks, vector)).armature

    start = parameters.pack(virtual, masks)
    inertia = np.where(robot.tree.revolute, virtual.length_scale**2, 1) * virtual.mass_scale
    assert np.allclose(rotors(start), 1e-3 * inertia)
    assert np.diag(jax.jacfwd(rotors)(start)).min() > 0.05 * (0.01 * inertia).min()
    extreme = jnp.asarray(draws(9, 40, np.float64).reshape(-1, 4))
    assert np.all(np.isfinite(jax.vmap(rotors)(extreme))) and np.min(jax.vmap(rotors)(extreme)) >= 0


# Names -------------------------------------------------------------------------------------------------------------


def test_labels_name_each_entry(robot):
    virtual = parameters.encode(robot)
    masks = parameters.learnable(virtual, ("inertia", "kinematics", "armature"), links="hand", joints="elbow")
    found = parameters.labels(virtual, masks)
    assert len(found) == len(parameters.pack(virtual, masks)) == len(set(found))
    assert found[0] == "hand log-cholesky alpha" and found[9] == "hand log-cholesky centre z"
    assert found[10:] == ["elbow x", "elbow y", "elbow z", "elbow roll", "elbow pitch", "elbow yaw"] + [
        "elbow softplus armature"
    ]
    root = parameters.encode(robot, "square-root")
    assert parameters.labels(root, parameters.learnable(root, "inertia"))[10] == "upper square-root root mass"


def test_physical_quantities_are_what_they_are_called():
    c, J = np.array([0.1, -0.2, 0.3]), np.array([[0.3, 0.01, 0.02], [0.01, 0.4, 0.03], [0.02, 0.03, 0.5]])
    about_origin = J + 2.0 * (c @ c * np.eye(3) - np.outer(c, c))
    robot = links([2.0, *(2 * c), *about_origin[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]])
    turn = jnp.asarray(Rotation.from_euler("xyz", [0.1, 0.2, 0.3]).as_matrix()[None])
    robot = replace(robot, placement=dn.Transform(turn, jnp.array([[1.0, 2.0, 3.0]])), armature=jnp.array([0.7]))
    rows = parameters.physical(robot)
    assert rows[0].label == "part0 mass [kg]" and rows[-1].label == "part0 armature [kg·m²]"
    wanted = [2.0, *c, 0.3, 0.01, 0.4, 0.02, 0.03, 0.5, 1.0, 2.0, 3.0, 0.1, 0.2, 0.3, 0.7]
    assert np.allclose([row.value for row in rows], wanted, rtol=0, atol=1e-12)
    assert [row.name.removeprefix("part0 ") for row in rows[4:13:3]] == ["inertia xx", "inertia xz", "translation x"]
    empty = parameters.physical(links(NOTHING))
    assert [row.value for row in empty[:10]] == [0.0] * 10
