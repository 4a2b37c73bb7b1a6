"""The dynamics with any leading batch axes: checked, compiled once a tree and batch size, as kernels where possible.

A robot's numbers are inputs of the compiled code: changing one compiles nothing.
"""

import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, ArrayLike, Float, Real

from diffnea import dynamics, kernels, manifold
from diffnea.arrays import Rows, numbers
from diffnea.robot import Robot, nameless
from diffnea.spatial import Transform


@partial(jax.jit, static_argnums=(0, 1, 2))
def _run(function: Callable[..., Any], skeleton: Any, dtype: Any, leaves: list[Array], arrays: list[Array]) -> Any:
    module = jax.tree.unflatten(skeleton, [jnp.asarray(leaf, dtype) for leaf in leaves])
    arrays = [array.astype(dtype) for array in arrays]
    batch = np.broadcast_shapes(*(array.shape[:-1] for array in arrays))
    if not batch:
        return function(module, *arrays)
    count = int(np.prod(batch))
    rows = [jnp.broadcast_to(x, (*batch, x.shape[-1])).reshape(count, x.shape[-1]) for x in arrays]
    results = jax.vmap(partial(function, module))(*rows)
    return jax.tree.map(lambda x: x.reshape(*batch, *x.shape[1:]), results)


def batched(function: Callable[..., Any], module: Any, **values: ArrayLike | Rows) -> Any:
    """Broadcast the batch axes, compute in the precision of the arrays given, and give the batch axes back.

    `function(module, *arrays)` is for one sample; the module is a robot, or holds some. Positions begin with `q` in
    their names and have `num_positions` entries, commands are `u` and have `num_joints`, all others `num_velocities`.
    """
    if not hasattr(module, "num_joints"):
        raise TypeError(f"got a {type(module).__name__} for a robot; give a Robot, as load_robot reads it")
    arrays = [numbers(name, value) for name, value in values.items()]
    check_lengths(module, dict(zip(values, (array.shape for array in arrays), strict=True)))
    leaves, structure = jax.tree.flatten(module)
    fast = function if kernels.switched_off() else kernel_for(function, whole_numbers(module), type(module) is Robot)
    return _run(fast, skeleton_of(module, structure), _precision(*arrays), leaves, arrays)


def check_lengths(module: Any, shapes: dict[str, tuple[int, ...]]) -> None:
    """As many numbers as the joints have, and batch axes that fit together."""
    for name, shape in shapes.items():
        count = _length(module, name)
        if not shape or shape[-1] != count:
            raise ValueError(f"{name} has shape {shape}; its last axis must be {count}, {_meaning(module, name)}")
    try:
        if len(set(shapes.values())) > 1:
            np.broadcast_shapes(*(shape[:-1] for shape in shapes.values()))
    except ValueError:
        found = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"batch axes do not match: {found}; give equal ones, or ones that broadcast") from None


def _length(module: Any, name: str) -> int:
    if name in ("q", "q0", "q1"):
        return module.num_positions
    return module.num_joints if name == "u" else module.num_velocities


def _meaning(module: Any, name: str) -> str:
    """What the numbers of an argument are."""
    if module.num_positions == module.num_joints or name == "u":
        return "one a joint"
    if name in ("q", "q0", "q1"):
        return "x y z and w x y z of a free link, w x y z of a ball, one a joint"
    return "linear and angular of a free link, three of a ball, one a joint"


_skeletons: dict[Any, Any] = {}


def skeleton_of(module: Any, structure: Any) -> Any:
    """What of a module shapes the computation, without names, so that equal trees share one compilation."""
    if structure not in _skeletons:
        if len(_skeletons) > 1000:
            _skeletons.clear()
        _skeletons[structure] = jax.tree.structure(on_robots(nameless, module))
    return _skeletons[structure]


def on_robots(change: Callable[[Robot], Robot], module: Any) -> Any:
    """The module with each robot in it changed."""
    return jax.tree.map(lambda part: change(part) if _is_robot(part) else part, module, is_leaf=_is_robot)


def _is_robot(part: Any) -> bool:
    return isinstance(part, Robot)


@lru_cache(maxsize=4096)
def kernel_for(
    function: Callable[..., Any], known: tuple[bytes, ...] | None, lasting: bool = False
) -> Callable[..., Any]:
    """The function as a kernel, for robots whose geometry has the zeros and ones of `known`: these cost nothing.

    A lasting one is found again by later processes; what it is called with must then be defined in this package.
    """
    name = kernels.name_of(function, *(known or (b"general",))) if lasting else None
    if known is None:
        return kernels.compile(function, name)

    def filled(module: Any, *arrays: Array) -> Any:
        patterns = iter(known)

        def fill(leaf):
            numbers = np.frombuffer(next(patterns)).reshape(leaf.shape)
            free = np.isnan(numbers)
            return jnp.where(free, leaf, jnp.asarray(np.where(free, 0.0, numbers), leaf.dtype))

        def fill_robot(robot):
            rotation, translation, axis = map(fill, _geometry(robot))
            return replace(robot, placement=Transform(rotation, translation), axis=axis)

        return function(on_robots(fill_robot, module), *arrays)

    return kernels.compile(filled, name)


def _geometry(robot: Robot) -> tuple[Array, Array, Array]:
    return robot.placement.rotation, robot.placement.translation, robot.axis


_patterns: dict[int, tuple[Any, bytes]] = {}


def whole_numbers(module: Any) -> tuple[bytes, ...] | None:
    """Where the robots' geometry is 0 or ±1, NaN elsewhere; None if JAX is tracing through it."""
    robots = [module] if _is_robot(module) else filter(_is_robot, jax.tree.leaves(module, is_leaf=_is_robot))
    leaves = [leaf for robot in robots for leaf in _geometry(robot)]
    return None if any(isinstance(leaf, Tracer) for leaf in leaves) else tuple(map(_pattern, leaves))


def _pattern(leaf: Array) -> bytes:
    """Remembered while the array lives: looking at it may mean a transfer from a device."""
    found = _patterns.get(id(leaf))
    if found is None or found[0]() is not leaf:
        numbers = np.asarray(leaf, np.float64)
        pattern = np.where(np.isin(numbers, (-1.0, 0.0, 1.0)), numbers, np.nan).tobytes()
        if len(_patterns) > 1000:
            _patterns.clear()
        found = _patterns[id(leaf)] = (weakref.ref(leaf), pattern)
    return found[1]


def _precision(*arrays: Array) -> Any:
    """float32 or float64 as given; whole numbers become JAX's default float."""
    dtype = np.result_type(*(array.dtype for array in arrays))
    return dtype if jnp.issubdtype(dtype, jnp.floating) else jnp.asarray(0.0).dtype


def forward_dynamics(
    robot: Robot,
    q: Real[ArrayLike, "*#batch nq"] | Rows,
    qd: Real[ArrayLike, "*#batch n"] | Rows,
    tau: Real[ArrayLike, "*#batch n"] | Rows,
) -> Float[Array, "*batch n"]:
    """Joint accelerations under joint torques `tau` (composite rigid body algorithm, factored along the tree)."""
    return batched(dynamics.forward, robot, q=q, qd=qd, tau=tau)


def inverse_dynamics(
    robot: Robot,
    q: Real[ArrayLike, "*#batch nq"] | Rows,
    qd: Real[ArrayLike, "*#batch n"] | Rows,
    qdd: Real[ArrayLike, "*#batch n"] | Rows,
) -> Float[Array, "*batch n"]:
    """The joint torques that give the accelerations `qdd` (recursive Newton-Euler algorithm)."""
    return batched(dynamics.rnea, robot, q=q, qd=qd, qdd=qdd)


def mass_matrix(robot: Robot, q: Real[ArrayLike, "*batch nq"] | Rows) -> Float[Array, "*batch n n"]:
    """The joint-space mass matrix, armature on its diagonal (composite rigid body algorithm)."""
    return batched(dynamics.crba, robot, q=q)


def bias_torque(
    robot: Robot, q: Real[ArrayLike, "*#batch nq"] | Rows, qd: Float[ArrayLike, "*#batch n"] | Rows
) -> Float[Array, "*batch n"]:
    """Coriolis, centrifugal and gravity torques together: `inverse_dynamics` at zero acceleration."""
    return batched(dynamics.bias, robot, q=q, qd=qd)


def gravity_torque(robot: Robot, q: Real[ArrayLike, "*batch nq"] | Rows) -> Float[Array, "*batch n"]:
    """The torques that hold the robot still against gravity."""
    return batched(dynamics.holding, robot, q=q)


def coriolis_matrix(
    robot: Robot, q: Real[ArrayLike, "*#batch nq"] | Rows, qd: Float[ArrayLike, "*#batch n"] | Rows
) -> Float[Array, "*batch n n"]:
    """`C` with `C q̇` the Coriolis and centrifugal torques and `Ṁ − 2C` skew-symmetric."""
    return batched(dynamics.christoffel, robot, q=q, qd=qd)


def energy(
    robot: Robot, q: Real[ArrayLike, "*#batch nq"] | Rows, qd: Float[ArrayLike, "*#batch n"] | Rows
) -> dynamics.Energy:
    """Kinetic and potential energy, rotors included."""
    return batched(dynamics.energies, robot, q=q, qd=qd)


def forward_kinematics(robot: Robot, q: Real[ArrayLike, "*batch nq"] | Rows) -> Float[Array, "*batch links 4 4"]:
    """World poses of the links' frames as homogeneous matrices, one a moving link."""
    return batched(dynamics.file_poses, robot, q=q)


def regressor(
    robot: Robot,
    q: Real[ArrayLike, "*#batch nq"] | Rows,
    qd: Real[ArrayLike, "*#batch n"] | Rows,
    qdd: Real[ArrayLike, "*#batch n"] | Rows,
) -> Float[Array, "*batch n p"]:
    """`Y` with `Y @ inertial_parameters(robot)` the torques of the links; rotors add `armature · qdd`."""
    return batched(dynamics.rnea_jacobian, robot, q=q, qd=qd, qdd=qdd)


def integrate(
    robot: Robot,
    q: Real[ArrayLike, "*#batch nq"] | Rows,
    qd: Real[ArrayLike, "*#batch n"] | Rows,
    dt: Real[ArrayLike, ""],
) -> Float[Array, "*batch nq"]:
    """Where `q` gets in `dt` seconds at constant velocities `qd`; quaternions come out with length one."""
    return batched(manifold.displace, robot, q=q, step=numbers("qd", qd) * jnp.asarray(dt))


def difference(
    robot: Robot, q0: Real[ArrayLike, "*#batch nq"] | Rows, q1: Real[ArrayLike, "*#batch nq"] | Rows
) -> Float[Array, "*batch n"]:
    """The constant velocities that lead from `q0` to `q1` in one second, turning the shorter way."""
    return batched(manifold.difference, robot, q0=q0, q1=q1)


def inertial_parameters(robot: Robot) -> Float[Array, " p"]:
    """Ten numbers a link: m, m·c, then J's xx, xy, yy, xz, yz, zz at the link's origin in the link's axes."""
    return robot.inertia.parameters.reshape(-1)
