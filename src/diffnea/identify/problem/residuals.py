"""Residuals of single samples, acceleration or torque, and their Jacobians in θ: kernels, for many θ at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from diffnea import kernels, parameters
from diffnea.identify.problem.least_squares import Normal, Problem
from diffnea.identify.problem.measurements.rows import Batch, LowPass, Rows, plain, through
from diffnea.identify.problem.unknowns import Unknowns, model_of
from diffnea.kernels.rules.tracer import MOST_RESULTS
from diffnea.models import AbstractModel, Model, acceleration, inverse
from diffnea.simulate.delay import latest, smooth_weights, weights

# A Jacobian of more numbers than this is worked through in pieces.
MOST_NUMBERS = 2**24


def delayed(model: AbstractModel, u: Float[Array, "late n"], smooth: bool = False) -> Float[Array, " n"]:
    """The command that arrives, interpolated between samples, so that the delay can be learned.

    Of commands that passed a low-pass, with four neighbours, as they are `smooth`; of others with two.
    """
    if u.shape[0] == 1:
        return u[0]
    assert isinstance(model, Model)  # networks have no delay
    shares = smooth_weights if smooth else weights
    return latest(shares(model.actuator.delay.astype(u.dtype), u.shape[0] - 1), u)


def of_acceleration(model: AbstractModel, q, qd, qdd, u, way=None) -> Float[Array, " n"]:
    """Predicted minus measured acceleration; friction goes by the state alone, as in roll-outs."""
    return acceleration(model, q, qd, u) - qdd


def of_torque(model: Model, q, qd, qdd, u, way=None) -> Float[Array, " n"]:
    """The torque that the motion takes minus that of the actuators; at a passive joint the latter is friction only."""
    return inverse(model, q, qd, qdd) - model.actuator(u, q, qd, way)


RESIDUALS: dict[str, Callable[..., PyTree]] = {"acceleration": of_acceleration, "torque": of_torque}


@dataclass(frozen=True)
class Form:
    """What shapes a problem's program: its loss, the structure of its module and which numbers in it are free; and
    whether commands are `smooth` between samples."""

    loss: str
    structure: PyTree
    masks: tuple[tuple[bytes, tuple[int, ...]], ...]
    masks_structure: PyTree
    smooth: bool = False

    @classmethod
    def of(cls, loss: str, structure: PyTree, masks: PyTree) -> "Form":
        """Hashable, so that equal problems share their kernels."""
        leaves, tree = jax.tree.flatten(masks)
        return cls(loss, structure, tuple((np.asarray(m, bool).tobytes(), np.shape(m)) for m in leaves), tree)

    def through(self, low_pass: LowPass | None) -> "Form":
        """The form for rows of this filter."""
        return replace(self, smooth=low_pass is not None)

    def model(self, theta: Array, leaves: list[Array]) -> PyTree:
        """The model of θ."""
        masks = [np.frombuffer(data, bool).reshape(shape) for data, shape in self.masks]
        tree = jax.tree.unflatten(self.structure, leaves)
        return model_of(parameters.unpack(tree, jax.tree.unflatten(self.masks_structure, masks), theta))

    def name(self, function: Callable[..., PyTree], *more: PyTree) -> str | None:
        """Under which a later process finds a kernel of this form; None where its text differs from one to the next."""
        text = repr((self.loss, str(self.structure), self.masks, str(self.masks_structure), self.smooth, more))
        lasting = " at 0x" not in text and kernels.ours(self.structure)
        return kernels.name_of(function, text.encode()) if lasting else None

    def residual(self, theta, leaves, q, qd, qdd, u, weight, way=None) -> Float[Array, " n"]:
        """The weighted residual of one sample."""
        model = self.model(theta, leaves)
        return weight * RESIDUALS[self.loss](model, q, qd, qdd, delayed(model, u, self.smooth), way)


@lru_cache(maxsize=256)
def residual_kernel(form: Form) -> Callable[..., PyTree]:
    """`(θ, leaves, *sample) → residual (n,)`."""
    return kernels.compile(form.residual, form.name(Form.residual))


@lru_cache(maxsize=256)
def jacobian_kernels(form: Form, size: int, joints: int) -> list[Callable[..., PyTree]]:
    """`(θ, leaves, *sample) → residual and Jacobian, side by side (n, 1 + p)`, in as many kernels as size asks for.

    One array each, so that a later process finds them by name.
    """
    most = max(1, MOST_RESULTS // (size + 1))
    groups = [tuple(range(k, min(k + most, joints))) for k in range(0, joints, most)]

    def rows(group: tuple[int, ...], theta, *rest):
        residual, pull = jax.vjp(lambda theta: form.residual(theta, *rest)[np.array(group)], theta)
        slopes = jax.vmap(lambda unit: pull(unit)[0])(jnp.eye(len(group), dtype=theta.dtype))
        return jnp.concatenate([residual[:, None], slopes], 1)

    return [kernels.compile(partial(rows, group), form.name(jacobian_kernels, size, group)) for group in groups]


def over_samples(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """The function of one θ over a batch."""
    return jax.vmap(function, (None, None, *[0] * len(Batch._fields)))


@partial(jax.jit, static_argnums=0)
def _squares(
    form: Form, theta: Array, leaves: list[Array], batch: Batch, low_pass: LowPass | None
) -> Float[Array, " starts"]:
    function = over_samples(residual_kernel(form.through(low_pass)))
    return jax.vmap(lambda row: jnp.sum(jnp.square(through(low_pass, function(row, leaves, *batch)))))(theta)


def _augmented(
    form: Form, theta: Array, leaves: list[Array], batch: Batch, low_pass: LowPass | None
) -> Float[Array, "starts row n p1"]:
    """Residuals and Jacobians side by side."""
    functions = jacobian_kernels(form.through(low_pass), theta.shape[1], batch.q.shape[1])
    parts = [jax.vmap(lambda row, f=f: over_samples(f)(row, leaves, *batch))(theta) for f in functions]
    return jax.vmap(partial(through, low_pass))(jnp.concatenate(parts, 2))


@partial(jax.jit, static_argnums=0)
def linear_rows(
    form: Form, theta: Array, leaves: list[Array], batch: Batch, low_pass: LowPass | None = None
) -> tuple[Array, Array]:
    """Residuals `(starts, row, n)` and Jacobians `(starts, row, n, p)`."""
    both = _augmented(form, theta, leaves, batch, low_pass)
    return both[..., 0], both[..., 1:]


@partial(jax.jit, static_argnums=0)
def _sums(
    form: Form, theta: Array, leaves: list[Array], batch: Batch, low_pass: LowPass | None
) -> Float[Array, "starts p1 p1"]:
    """Products of all columns: of residuals first, then of the Jacobian."""
    both = _augmented(form, theta, leaves, batch, low_pass).reshape(len(theta), -1, 1 + theta.shape[1])
    return jnp.einsum("srp,srk->spk", both, both)


def problem(loss: str, free: Unknowns, data: Batch | Sequence[Rows], starts: int) -> Problem:
    """The mean squared weighted residual of these samples as a least-squares problem."""
    leaves, structure, masks = free.nameless()
    form = Form.of(loss, structure, masks)
    several = [plain(data, [len(data.q)], None)] if isinstance(data, Batch) else data
    most = max(64, MOST_NUMBERS // (starts * several[0].weight.shape[1] * free.size))
    parts = [part for rows in several for part in rows.pieces(most)]
    count = max(sum(rows.count for rows in several), 1)

    def total(function: Callable[..., Array], theta: np.ndarray) -> np.ndarray:
        return np.asarray(sum(np.asarray(function(form, theta, leaves, *part)) for part in parts)) / count

    def loss_of(theta: np.ndarray) -> np.ndarray:
        return total(_squares, theta)

    def normal_of(theta: np.ndarray) -> Normal:
        sums = total(_sums, theta)
        return Normal(sums[:, 0, 0], sums[:, 1:, 0], sums[:, 1:, 1:])

    return Problem(loss_of, normal_of, count)


@partial(jax.jit, static_argnums=0)
def _residuals(
    form: Form, theta: Array, leaves: list[Array], batch: Batch, low_pass: LowPass | None
) -> Float[Array, "row n"]:
    return through(low_pass, over_samples(residual_kernel(form.through(low_pass)))(theta, leaves, *batch))


def residuals(loss: str, free: Unknowns, rows: Rows, theta: Float[np.ndarray, " p"]) -> Float[np.ndarray, "row n"]:
    """The weighted residuals of one θ."""
    leaves, structure, masks = free.nameless()
    form = Form.of(loss, structure, masks)
    return np.asarray(_residuals(form, jnp.asarray(theta), leaves, rows.batch, rows.low_pass))
