"""One sample, then batches: checked, compiled once a tree and batch size, as kernels where possible.

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
from jaxtyping import Array, ArrayLike

from diffnea import dynamics, kernels, loops, manifold
from diffnea.arrays import Rows, numbers
from diffnea.canonical import Canonical, canonical, is_simple, with_known
from diffnea.robot import Robot, nameless
from diffnea.spatial import Transform

Run = Callable[[list[Array], list[Array]], Any]


@lru_cache(maxsize=4096)
def _runner(function: Callable[..., Any], skeleton: Any, dtype: Any) -> Run:
    """What runs a function, under `jit`, on the leaves of a module and on arrays with batch axes."""

    @jax.jit
    def run(leaves: list[Array], arrays: list[Array]) -> Any:
        module = jax.tree.unflatten(skeleton, [jnp.asarray(leaf, dtype) for leaf in leaves])
        arrays = [array.astype(dtype) for array in arrays]
        batch = np.broadcast_shapes(*(array.shape[:-1] for array in arrays))
        if not batch:
            return function(module, *arrays)
        count = int(np.prod(batch))
        rows = [jnp.broadcast_to(x, (*batch, x.shape[-1])).reshape(count, x.shape[-1]) for x in arrays]
        results = jax.vmap(partial(function, module))(*rows)
        return jax.tree.map(lambda x: x.reshape(*batch, *x.shape[1:]), results)

    return run


def batched(function: Callable[..., Any], module: Any, **values: ArrayLike | Rows) -> Any:
    """Broadcast the batch axes, compute in the precision of the arrays given, and give the batch axes back.

    `function(module, *arrays)` is for one sample; the module is a robot, or holds some. Positions begin with `q` in
    their names and have `num_positions` entries, commands are `u` and have `num_joints`, all others `num_velocities`.
    """
    try:  # A call by hand is bound by Python: what was checked once of these shapes is not looked at again.
        given: list[Any] = list(values.values())
        key = id(module), function, kernels.switched_off(), *[(x.shape, x.dtype, type(x)) for x in given]
    except AttributeError:  # what is given is no array
        return _checked(function, module, values)
    held = _ready.get(key)
    if held is not None and held.module() is module:
        return held.run(given)
    return _checked(function, module, values, key)


class _Ready:
    """What runs a function on a module and arrays of some shapes, after all was checked."""

    __slots__ = ("_calls", "_general", "_leaves", "module", "run")

    def __init__(self, module: weakref.ref, run: Run, leaves: list[Array]):
        self.module, self.run, self._calls = module, self._counted, 0
        self._general, self._leaves = run, leaves

    def _counted(self, arrays: list[Any]) -> Any:
        """By the code that all robots of a tree share; after `OFTEN` calls the robot's numbers become part of it."""
        self._calls += 1
        if self._calls == OFTEN and not any(isinstance(array, Tracer) for array in arrays):
            run, leaves = self._general, self._leaves
            self.run = jax.jit(lambda given: run(leaves, given))
        return self._general(self._leaves, arrays)


OFTEN = 64  # passing a robot's numbers takes some µs a call, compiling them in some 20 ms
_ready: dict[Any, _Ready] = {}  # by a module's identity, a function and shapes, while the module lives


def _with(owner: Any, table: dict[Any, Any], key: Any) -> weakref.ref:
    """A reference to what an entry of a table belongs to; the entry goes when that does."""
    return weakref.ref(owner, lambda _: table.pop(key, None))


def _checked(function: Callable[..., Any], module: Any, values: dict[str, Any], key: Any = None) -> Any:
    """The same after a look at everything; remembered under the key if the module's numbers will not change."""
    if not isinstance(module, Robot) and (
        function.__module__.startswith(_OF_ROBOTS) or not hasattr(module, "num_joints")
    ):
        own = ", or this one's .robot" if isinstance(getattr(module, "robot", None), Robot) else ""
        raise TypeError(f"got a {type(module).__name__} for a robot; give a Robot, as load_robot reads it{own}")
    arrays = [numbers(name, value) for name, value in values.items()]
    check_lengths(module, dict(zip(values, (array.shape for array in arrays), strict=True)))
    run, leaves = _prepare(function, module, _precision(*arrays))
    if key is not None and all(isinstance(x, jax.Array) and not isinstance(x, Tracer) for x in jax.tree.leaves(module)):
        if len(_ready) > 1000:
            _ready.clear()
        _ready[key] = _Ready(_with(module, _ready, key), run, leaves)
    return run(leaves, arrays)


# What is asked of robots alone, without actuators.
_OF_ROBOTS = dynamics.__name__, manifold.__name__, loops.__name__

_in_any_frames: set[Callable[..., Any]] = set()


def in_any_frames(function: Callable[..., Any]) -> Callable[..., Any]:
    """Say of a function that its results do not depend on where links' frames are: it takes robots as `Canonical`."""
    _in_any_frames.add(function)
    return function


def _prepare(function: Callable[..., Any], module: Any, dtype: Any) -> tuple[Run, list[Array]]:
    lasting, off = type(module) is Robot, kernels.switched_off()
    touching = getattr(module, "contact", None) is not None  # points of links are in the frames of the file
    if function in _in_any_frames and not (off or touching) and all(map(is_simple, robots_in(module))):
        form = on_robots(lambda robot: canonical(robot, _compiled, dtype), module)
        leaves, structure = jax.tree.flatten(form)
        return _runner(canonical_kernel(function, lasting), structure, dtype), leaves
    leaves, structure = jax.tree.flatten(module)
    known = whole_numbers(module)
    fast = function if off else kernel_for(function, known, name_for(function, known) if lasting else None)
    return _runner(fast, skeleton_of(module, structure), dtype), leaves


_forms: dict[Any, tuple[list[weakref.ref], Any]] = {}  # of robots whose numbers are there, while they live


def in_canonical_frames(module: Any, dtype: Any) -> Any:
    """The module with its robots in canonical form; None where one has none, or kernels are switched off."""
    robots = robots_in(module)
    if not robots or kernels.switched_off() or not all(map(is_simple, robots)):
        return None
    return on_robots(lambda robot: replace(_form(robot, dtype), guess=None), module)


def _form(robot: Robot, dtype: Any) -> Canonical:
    leaves = jax.tree.leaves(robot)
    if not all(isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer) for leaf in leaves):
        return canonical(robot, _compiled, dtype)
    key = tuple(map(id, leaves)), jnp.dtype(dtype)
    held = _forms.get(key)
    if held is None or any(ref() is not leaf for ref, leaf in zip(held[0], leaves, strict=True)):
        if len(_forms) > 1000:
            _forms.clear()
        held = _forms[key] = [_with(leaf, _forms, key) for leaf in leaves], canonical(robot, _compiled, dtype)
    return held[1]


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function at the top of one of this package's files as a kernel that later processes find again."""
    return kernels.compile(function, kernels.name_of(function))


@lru_cache(maxsize=4096)
def canonical_kernel(function: Callable[..., Any], lasting: bool) -> Callable[..., Any]:
    """The function as a kernel on modules whose robots are in canonical form."""
    return kernels.compile(with_guesses(function), kernels.name_of(function, b"canonical") if lasting else None)


def with_guesses(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function on modules whose robots are in canonical form: for what is known, or what is found to be right."""

    def chosen(module: Any, *arrays: Any) -> Any:
        general = _on(Canonical, lambda robot: with_known(robot, robot.known), module)
        robots = [robot for robot in _parts(Canonical, module) if robot.guess is not None]
        if not robots:
            return function(general, *arrays)
        guessed = _on(Canonical, lambda robot: with_known(robot, robot.guess or robot.known), module)
        right = kernels.likely(jnp.all(jnp.stack([robot.matches() for robot in robots])))
        return jax.lax.cond(right, lambda: function(guessed, *arrays), lambda: function(general, *arrays))

    return chosen


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


def on_robots(change: Callable[[Robot], Any], module: Any) -> Any:
    """The module with each robot in it changed."""
    return _on(Robot, change, module)


def robots_in(module: Any) -> list[Robot]:
    """The robots in a module."""
    return _parts(Robot, module)


def _on(kind: type, change: Callable[[Any], Any], module: Any) -> Any:
    def is_one(part: Any) -> bool:
        return isinstance(part, kind)

    return jax.tree.map(lambda part: change(part) if is_one(part) else part, module, is_leaf=is_one)


def _parts(kind: type, module: Any) -> list[Any]:
    found = jax.tree.leaves(module, is_leaf=lambda part: isinstance(part, kind))
    return [part for part in found if isinstance(part, kind)]


def name_for(function: Callable[..., Any], known: tuple[bytes, ...] | None, *more: Callable[..., Any]) -> str | None:
    """Of a function for such robots, made of others; None if one of them is not at the top of a file of ours."""
    names = [kernels.name_of(one) for one in more]
    if None in names:
        return None
    return kernels.name_of(function, *(known or (b"general",)), *(str(name).encode() for name in names))


@lru_cache(maxsize=4096)
def kernel_for(
    function: Callable[..., Any], known: tuple[bytes, ...] | None, name: str | None = None
) -> Callable[..., Any]:
    """The function as a kernel, for robots whose geometry has the zeros and ones of `known`: these cost nothing.

    One with a name (`name_for`) is found again by later processes.
    """
    if known is None:
        return kernels.compile(with_guesses(function), name)

    def filled(module: Any, *arrays: Any) -> Any:
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
    leaves = [leaf for robot in robots_in(module) for leaf in _geometry(robot)]
    return None if any(isinstance(leaf, Tracer) for leaf in leaves) else tuple(map(_pattern, leaves))


def _pattern(leaf: Array) -> bytes:
    """Remembered while the array lives: looking at it may mean a transfer from a device."""
    found = _patterns.get(id(leaf))
    if found is None or found[0]() is not leaf:
        numbers = np.asarray(leaf, np.float64)
        pattern = np.where(np.isin(numbers, (-1.0, 0.0, 1.0)), numbers, np.nan).tobytes()
        if len(_patterns) > 1000:
            _patterns.clear()
        found = _patterns[id(leaf)] = (_with(leaf, _patterns, id(leaf)), pattern)
    return found[1]


def _precision(*arrays: Array) -> Any:
    """float32 or float64 as given; whole numbers become JAX's default float."""
    dtype = np.result_type(*(array.dtype for array in arrays))
    return dtype if jnp.issubdtype(dtype, jnp.floating) else jnp.asarray(0.0).dtype


for _function in (dynamics.forward, dynamics.rnea, dynamics.crba, dynamics.bias, dynamics.holding):
    in_any_frames(_function)
