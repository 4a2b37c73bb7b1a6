"""Virtual parameters: every number is a physical robot, and every robot has its numbers."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from bodies import (
    CENTRED,
    DISC,
    NOTHING,
    POINT,
    ROD,
    ROTOR,
    SINGULAR,
    arm,
    definite,
    draws,
    everything,
    links,
    pseudo_inertia,
    scaled,
    sized,
)
from robots import relative
from scipy.spatial.transform import Rotation

import diffnea as dn
from diffnea import kernels, parameters
from diffnea.parameters.inertia import FORMS, inertia

BOTH = pytest.mark.parametrize("form", list(FORMS))
# Encoding goes through a Cholesky factor or eigenvectors: a few hundred roundings of a link's largest moment.
LAW = 1e-12


def linear(form: str):
    """Ten virtual numbers → ten linear parameters."""
    return lambda numbers: inertia(FORMS[form].decode(numbers)).parameters


@pytest.fixture(scope="module")
def robot() -> dn.Robot:
    return arm()


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


@BOTH
def test_any_vector_is_a_robot(robot, form):
    virtual = parameters.encode(robot, form)
    masks = everything(virtual)
    vectors = jnp.asarray(draws(8, 6800, np.float64).reshape(-1, 68))
    found = jax.jit(jax.vmap(lambda v: parameters.decode(parameters.unpack(virtual, masks, v))))(vectors)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((found.inertia, found.placement, found.armature)))
    assert np.all(np.asarray(found.inertia.mass) > 0) and np.all(np.asarray(found.armature) >= 0)
    turns = np.asarray(found.placement.rotation)
    assert np.abs(turns @ np.swapaxes(turns, -1, -2) - np.eye(3)).max() < LAW


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
        virtual = parameters.encode(robot, form, nearest=True)
        found = virtual.robot().inertia.parameters
        assert min(map(np.min, definite(found))) > 0
        assert np.abs(found[0] - np.array(POINT)).max() < SINGULAR
        units = np.array([*[1 / float(virtual.length_scale)] * 3, 1.0])
        before, after = (pseudo_inertia(x) * np.outer(units, units) for x in (np.array(row), found[1]))
        values = np.linalg.eigvalsh(before)
        # No positive matrix is nearer than by the negative eigenvalues; clipped ones are 1e-6 of the largest.
        assert np.linalg.norm(after - before) < np.linalg.norm(np.minimum(values, 0)) + 1e-5 * np.abs(values).max()


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
