"""Virtual parameters: every number is a physical robot, every robot has its numbers, and what is not learned stays."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from robots import depth_first, random_robot, random_state, random_tree, relative
from scipy.spatial.transform import Rotation

import diffnea as dn
from diffnea import dynamics, kernels, parameters
from diffnea.parameters.inertia import FORMS, inertia

BOTH = pytest.mark.parametrize("form", list(FORMS))
# Encoding goes through a Cholesky factor or eigenvectors: a few hundred roundings of a link's largest moment.
LAW = 1e-12
# A singular body is given an extent of 64 roundings of its largest moment, one in each direction.
SINGULAR = 1e-13


def draws(seed: int, count: int, dtype) -> np.ndarray:
    """Virtual numbers of every size: up to the limits of floats, mixed by link; ordinary; and zeros among them."""
    rng = np.random.default_rng(seed)
    largest = 300 if dtype == np.float64 else 38
    reach = rng.choice([largest, 9, 1], (count, 1))
    sizes = 10.0 ** (reach * rng.uniform(-1, 1, (count, 10)))
    return (sizes * rng.choice([-1, 1], (count, 10)) * (rng.random((count, 10)) > 0.05)).astype(dtype)


def pseudo_inertia(rows) -> np.ndarray:
    """(…, 10) linear parameters → (…, 4, 4), in double precision."""
    m, hx, hy, hz, xx, xy, yy, xz, yz, zz = np.moveaxis(np.asarray(rows, np.float64), -1, 0)
    entries = [(yy + zz - xx) / 2, -xy, -xz, hx, -xy, (xx + zz - yy) / 2, -yz, hy]
    entries += [-xz, -yz, (xx + yy - zz) / 2, hz, hx, hy, hz, m]
    return np.stack(entries, -1).reshape(*m.shape, 4, 4)


def scaled(rows) -> np.ndarray:
    """Pseudo-inertias in units of each body's own mass and length: what is left is its shape."""
    P = pseudo_inertia(rows)
    mass, trace = P[:, 3, 3], np.trace(P[:, :3, :3], axis1=1, axis2=2)
    units = 1 / np.sqrt(np.stack([trace, trace, trace, mass], 1))
    return P * units[:, :, None] * units[:, None, :]


def definite(rows) -> tuple[np.ndarray, np.ndarray]:
    """The least eigenvalue of each scaled pseudo-inertia, and the least slack in the triangle inequality of the
    principal moments about the centre of mass."""
    P = scaled(rows)
    central = P[:, :3, :3] - P[:, :3, 3:] * P[:, 3:, :3]
    moments = np.linalg.eigvalsh(np.trace(central, axis1=1, axis2=2)[:, None, None] * np.eye(3) - central)
    return np.linalg.eigvalsh(P)[:, 0], moments[:, 0] + moments[:, 1] - moments[:, 2]


def linear(form: str):
    """Ten virtual numbers → ten linear parameters."""
    return lambda numbers: inertia(FORMS[form].decode(numbers)).parameters


def sized(robot: dn.Robot, mass: float, length: float) -> dn.Robot:
    """The robot in other units."""
    powers = mass * np.array([1.0, *[length] * 3, *[length**2] * 6])
    placement = dn.Transform(robot.placement.rotation, robot.placement.translation * length)
    changed = dn.Inertia.from_parameters(robot.inertia.parameters * powers[None])
    return replace(robot, inertia=changed, placement=placement)


def links(*rows) -> dn.Robot:
    """A chain whose links have these linear parameters."""
    count = len(rows)
    names = tuple(f"part{i}" for i in range(count))
    tree = dn.Tree(tuple(range(-1, count - 1)), ("revolute",) * count, names, names)
    return replace(random_robot(tree, 0), inertia=dn.Inertia.from_parameters(jnp.asarray(rows)))


@pytest.fixture(scope="module")
def robot() -> dn.Robot:
    tree = depth_first(random_tree(3, 4))  # as MJCF numbers joints
    named = dn.Tree(
        tree.parents, tree.kinds, ("base", "shoulder", "elbow", "wrist"), ("post", "upper", "lower", "hand")
    )
    return replace(random_robot(named, 5), name="arm")


def everything(virtual: parameters.VirtualRobot) -> parameters.VirtualRobot:
    return parameters.learnable(virtual, ("inertia", "kinematics", "armature"))


# Physical by construction ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "count"), [(np.float64, 1_000_000), (np.float32, 200_000)])
@BOTH
def test_any_numbers_are_a_body(form, dtype, count):
    """Strictly, not to a tolerance: each is positive definite as rounded."""
    decode = jax.jit(jax.vmap(kernels.compile(linear(form))))
    rows = np.asarray(decode(draws(1, count, dtype)))
    assert rows.dtype == dtype and np.isfinite(rows).all()
    np.linalg.cholesky(scaled(rows))  # raises where one is not positive definite
    eigenvalue, slack = definite(rows[:50_000])
    assert eigenvalue.min() > 0 and slack.min() > 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@BOTH
def test_derivatives_are_finite_and_the_portable_form_is_physical_too(form, dtype):
    numbers = draws(2, 20_000, dtype)
    rows, slopes = jax.jit(jax.vmap(lambda x: (linear(form)(x), jax.jacfwd(linear(form))(x))))(numbers)
    assert np.isfinite(slopes).all() and min(map(np.min, definite(rows))) > 0
    weights = jnp.asarray(np.random.default_rng(0).normal(size=10), dtype)
    assert np.isfinite(jax.jit(jax.vmap(jax.grad(lambda x: linear(form)(x) @ weights)))(numbers)).all()


@BOTH
def test_no_flat_spot_among_ordinary_numbers(form):
    """The map keeps all ten dimensions, so no direction of the inertia is out of reach."""
    numbers = np.random.default_rng(3).normal(size=(50, 10)) + np.array([1.0, *[0.0] * 9]) * 3
    numbers[:, 1:4] = np.abs(numbers[:, 1:4]) + 0.2
    numbers[:, 1:4] += np.array([0.0, 0.5, 1.0])  # equal moments have no axes: there RPY is free
    slopes = np.asarray(jax.jit(jax.vmap(jax.jacfwd(linear(form))))(numbers))
    assert np.all(np.linalg.matrix_rank(slopes) == 10)


# The maps against their equations ----------------------------------------------------------------------------------


def test_log_cholesky_is_that_of_rucker_and_wensing():
    for alpha, *rest in np.random.default_rng(4).normal(size=(20, 10)):
        (d1, d2, d3, s12, s23, s13, t1, t2, t3) = rest
        U = np.exp(alpha) * np.array(
            [[np.exp(d1), s12, s13, t1], [0, np.exp(d2), s23, t2], [0, 0, np.exp(d3), t3], [0, 0, 0, 1]]
        )
        # Our exponents are bent by the bound, smoothly; nothing else is.
        bent = [14 * alpha / np.sqrt(14**2 - alpha**2), *(25 * d / np.sqrt(25**2 - d**2) for d in (d1, d2, d3))]
        assert relative(pseudo_inertia(linear("log-cholesky")(jnp.array([*bent, *rest[3:]]))), U @ U.T) < LAW


def test_square_root_is_that_of_the_paper():
    for numbers in np.random.default_rng(5).normal(size=(20, 10)):
        theta_m, theta, rpy, c = numbers[0], numbers[1:4], numbers[4:7], numbers[7:]
        m, (L1, L2, L3) = theta_m**2, theta**2
        R = Rotation.from_euler("xyz", rpy).as_matrix()
        cross = np.cross(np.eye(3), c)  # [c]ᵀ
        J = R @ np.diag([L2 + L3, L1 + L3, L1 + L2]) @ R.T - m * cross @ cross
        wanted = [m, *(m * c), *J[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]]
        assert relative(linear("square-root")(jnp.asarray(numbers)), np.array(wanted)) < 1e-10


def test_mujoco_accepts_random_starts_as_they_are_written(robot, tmp_path):
    """It refuses inertias that break the triangle inequality, so it is a judge of ours."""
    virtual = parameters.encode(robot)
    start = parameters.decode(parameters.random(virtual, everything(virtual), jax.random.key(0)))
    dn.save_robot(start, tmp_path / "start.xml", fresh=True)
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "start.xml"))
    bodies = [model.body(name).id for name in start.link_names]
    assert relative(model.body_mass[bodies], start.inertia.mass) < 1e-6
    central = [row.value for row in parameters.physical(start) if " inertia " in row.name]
    matrices = np.reshape(central, (-1, 6))[:, [[0, 1, 3], [1, 2, 4], [3, 4, 5]]]
    found, wanted = np.sort(model.body_inertia[bodies], axis=1), np.linalg.eigvalsh(matrices)
    assert relative(found, wanted) < 1e-6


# Robot → numbers → robot -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mass", "length"), [(1, 1), (1e-6, 1e-3), (1e6, 100), (1e-6, 100), (1e6, 1e-3)])
@BOTH
def test_decode_undoes_encode(robot, form, mass, length):
    given = sized(robot, mass, length)
    virtual = parameters.encode(given, form)
    found = parameters.decode(
        parameters.unpack(virtual, everything(virtual), parameters.pack(virtual, everything(virtual)))
    )
    for new, own in zip(found.inertia.parameters, given.inertia.parameters, strict=True):
        for part in (slice(0, 1), slice(1, 4), slice(4, 10)):
            assert relative(new[part], own[part]) < LAW
    assert relative(found.placement.translation, given.placement.translation) < LAW
    assert relative(found.placement.rotation, given.placement.rotation) < LAW
    assert relative(found.armature, given.armature) < LAW
    kept = ("tree", "axis", "damping", "friction", "gear", "limits", "frame_offset", "gravity", "name", "source")
    for field in kept:
        assert eqx.tree_equal(getattr(found, field), getattr(given, field)), field


@BOTH
def test_decode_undoes_encode_in_single_precision(robot, form):
    given = jax.tree.map(lambda x: x.astype(np.float32), robot)
    found = parameters.encode(given, form).robot()
    assert found.inertia.mass.dtype == np.float32
    assert relative(found.inertia.parameters, given.inertia.parameters) < 1e-5


def test_rotations_survive_gimbal_lock():
    angles = np.array([[0.3, np.pi / 2, -0.4], [0.3, -np.pi / 2, 1.2], [1.0, 1.5707963, 2.0], [3.1, -1.57079, -3.0]])
    turned = Rotation.from_euler("xyz", angles).as_matrix()
    body = [1.0, 0.0, 0.0, 0.1, 0.1, 0.0, 0.1, 0.0, 0.0, 0.1]
    robot = links(body, body, body, body)
    robot = replace(robot, placement=dn.Transform(jnp.asarray(turned), robot.placement.translation))
    assert np.abs(parameters.encode(robot).robot().placement.rotation - turned).max() < 1e-10
    values = jax.jacrev(parameters.physical_values)(robot)
    assert np.isfinite(values.placement.rotation).all()


POINT = [2.0, 0.0, 0.0, 1.0, 0.5, 0.0, 0.5, 0.0, 0.0, 0.0]  # 2 kg, half a metre up
CENTRED = [2.0, *[0.0] * 9]  # 2 kg at the origin
ROD = [1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 1 / 3, 0.0, 0.0, 1 / 3]
DISC = [1.0, 0.0, 0.0, 0.0, 0.25, 0.0, 0.25, 0.0, 0.0, 0.5]
NOTHING = [0.0] * 10
ROTOR = [0.0, 0.0, 0.0, 0.0, 0.2, 0.0, 0.3, 0.0, 0.0, 0.4]  # inertia but no mass


@BOTH
def test_singular_links_become_the_nearest_body(form):
    given = np.array([POINT, CENTRED, ROD, DISC, NOTHING, ROTOR])
    found = np.asarray(parameters.encode(links(*given), form).robot().inertia.parameters)
    assert min(map(np.min, definite(found))) > 0
    assert np.abs(found[:4] - given[:4]).max() < SINGULAR
    assert np.abs(found[4:, 1:] - given[4:, 1:]).max() < SINGULAR
    assert np.allclose(found[4:, 0], 1e-9 * given[:, 0].mean(), rtol=1e-3)


def test_what_a_file_rounds_off_is_forgiven():
    sheet = [1.0, 0.0, 0.0, 0.0, 0.083333, 0.0, 0.083333, 0.0, 0.0, 0.166667]
    found = parameters.encode(links(sheet)).robot().inertia.parameters[0]
    assert np.abs(found - np.array(sheet)).max() < 1e-6


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ([-1.0, *[0.0] * 9], "its mass is -1 kg"),
        ([0.0, 1.0, *[0.0] * 8], "its mass is 0, but its first moment"),
        ([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 3.0], "1, 1, 3 kg·m² are negative, or one exceeds the sum"),
        ([1.0, 2.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0], "are negative, or one exceeds"),
    ],
)
def test_what_no_body_has_is_refused_or_projected(row, says):
    robot = links(POINT, row)
    with pytest.raises(ValueError, match=says) as refused:
        parameters.encode(robot)
    assert 'link "part1"' in str(refused.value) and "nearest=True" in str(refused.value)
    for form in FORMS:
        found = parameters.encode(robot, form, nearest=True).robot().inertia.parameters
        assert min(map(np.min, definite(found))) > 0
        assert np.abs(found[0] - np.array(POINT)).max() < SINGULAR
        assert np.abs(found[1] - np.array(row)).max() < 2 * np.abs(row).max()


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ([np.nan, *[0.0] * 9], 'link "part0": its inertia is not finite'),
        (
            [1e13, 0.0, 0.0, 0.0, 1e13, 0.0, 1e13, 0.0, 0.0, 1e13],
            'link "part0": its mass is beyond.*use 1e-11 to 1e11 kg',
        ),
    ],
)
def test_what_cannot_be_encoded_is_refused(row, says):
    with pytest.raises(ValueError, match=says):
        parameters.encode(links(row), nearest=True)


def test_unknown_form_is_refused(robot):
    with pytest.raises(ValueError, match='inertia is "cholesky"; use log-cholesky or square-root'):
        parameters.encode(robot, "cholesky")


def test_a_placement_beyond_the_limits_is_refused(robot):
    far = replace(robot, placement=dn.Transform(robot.placement.rotation, robot.placement.translation * 1e10))
    with pytest.raises(ValueError, match='joint "base": its translation is .* use at most 1e\\+09 m'):
        parameters.encode(far)


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
        ({"learn": "inertia", "joints": ("elbow",)}, "joints are named, but learn has no armature or kinematics"),
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

    def move(vector, q, qd, tau):
        return dynamics.aba(parameters.decode(parameters.unpack(virtual, masks, vector)), q, qd, tau)

    starts = parameters.random_vectors(virtual, masks, jax.random.key(3), 5)
    fast = jax.jit(jax.vmap(kernels.compile(move), (0, None, None, None)))
    robots = [parameters.decode(parameters.unpack(virtual, masks, vector)) for vector in starts]
    wanted = [dn.forward_dynamics(robot, q, qd, tau) for robot in robots]
    assert relative(fast(starts, q, qd, tau), jnp.stack(wanted)) < 1e-10
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
