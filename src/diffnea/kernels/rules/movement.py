"""Rules for what only moves elements: shapes, slices, and gathers and scatters with known indices."""

from typing import Any

import numpy as np

from diffnea.kernels.rules.tracer import Operand, Symbols, Tracer, Unsupported, alike, move, rule


@rule("broadcast_in_dim")
def _broadcast_in_dim(_tracer, operand: Operand, *_, shape, broadcast_dimensions, **__) -> Operand:
    def spread(array):
        full = [1] * len(shape)
        for axis, target in enumerate(broadcast_dimensions):
            full[target] = array.shape[axis]
        return np.broadcast_to(array.reshape(full), shape)

    return move(spread, operand)


@rule("reshape")
def _reshape(_tracer, operand: Operand, *, new_sizes, **_) -> Operand:
    return move(lambda array: array.reshape(new_sizes), operand)


@rule("squeeze")
def _squeeze(_tracer, operand: Operand, *, dimensions) -> Operand:
    return move(lambda array: np.squeeze(array, tuple(dimensions)), operand)


@rule("expand_dims")
def _expand_dims(_tracer, operand: Operand, *, dimensions) -> Operand:
    return move(lambda array: np.expand_dims(array, tuple(dimensions)), operand)


@rule("transpose")
def _transpose(_tracer, operand: Operand, *, permutation) -> Operand:
    return move(lambda array: np.transpose(array, permutation), operand)


@rule("rev")
def _rev(_tracer, operand: Operand, *, dimensions) -> Operand:
    return move(lambda array: np.flip(array, tuple(dimensions)), operand)


@rule("slice")
def _slice(_tracer, operand: Operand, *, start_indices, limit_indices, strides) -> Operand:
    steps = strides or (1,) * len(start_indices)
    window = tuple(slice(*bounds) for bounds in zip(start_indices, limit_indices, steps, strict=True))
    return move(lambda array: array[window], operand)


@rule("concatenate")
def _concatenate(tracer: Tracer, *operands: Operand, dimension) -> Operand:
    return move(lambda *parts: np.concatenate(parts, dimension), *alike(tracer, *operands))


@rule("split")
def _split(_tracer, operand: Operand, *, sizes, axis) -> list[Operand]:
    ends = np.cumsum(sizes)[:-1]
    parts = range(len(sizes))
    return [move(lambda array, part=part: np.split(array, ends, axis)[part], operand) for part in parts]


@rule("stack")
def _stack(tracer: Tracer, *operands: Operand, axis) -> Operand:
    return move(lambda *parts: np.stack(parts, axis), *alike(tracer, *operands))


@rule("unstack")
def _unstack(_tracer, operand: Operand, *, axis) -> list[Operand]:
    count = (operand.values if isinstance(operand, Symbols) else operand).shape[axis]
    return [move(lambda array, k=k: np.take(array, k, axis), operand) for k in range(count)]


@rule("tile")
def _tile(_tracer, operand: Operand, *, reps) -> Operand:
    return move(lambda array: np.tile(array, reps), operand)


@rule("pad")
def _pad(tracer: Tracer, operand: Operand, filler: Operand, *, padding_config) -> Operand:
    def padded(array, fill):
        for axis, (low, high, gap) in enumerate(padding_config):
            array = _pad_axis(np.moveaxis(array, axis, 0), fill, int(low), int(high), int(gap))
            array = np.moveaxis(array, 0, axis)
        return array

    return move(padded, *alike(tracer, operand, filler))


def _pad_axis(array: np.ndarray, fill, low: int, high: int, gap: int) -> np.ndarray:
    """Spread the rows by `gap`, put `low` before and `high` after them; less than nothing cuts."""
    spread = np.full((max((len(array) - 1) * (gap + 1) + 1, 0), *array.shape[1:]), fill)
    spread[:: gap + 1] = array
    before = np.full((max(low, 0), *array.shape[1:]), fill)
    after = np.full((max(high, 0), *array.shape[1:]), fill)
    padded = np.concatenate([before, spread, after])
    return padded[max(-low, 0) : len(padded) - max(-high, 0)]


@rule("empty", "empty2")
def _empty(tracer: Tracer, *_, dtype, shape=(), **__) -> Operand:
    return tracer.symbols(np.zeros(shape, dtype))


@rule("iota")
def _iota(tracer: Tracer, *_, dtype, shape, dimension, **__) -> Operand:
    along = np.arange(shape[dimension]).reshape([-1 if axis == dimension else 1 for axis in range(len(shape))])
    numbers = np.broadcast_to(along, shape).astype(dtype)
    return tracer.symbols(numbers) if np.issubdtype(dtype, np.floating) else numbers


def _starts(indices: tuple[Operand, ...], shape, sizes, what: str) -> list[int]:
    """Known start indices, kept inside as XLA keeps them."""
    starts = []
    for index, n, size in zip(indices, shape, sizes, strict=True):
        if isinstance(index, Symbols):
            raise Unsupported(f"{what} at a computed index")
        starts.append(int(np.clip(index, 0, n - size)))
    return starts


@rule("dynamic_slice")
def _dynamic_slice(_tracer, operand: Operand, *indices: Operand, slice_sizes) -> Operand:
    def cut(array):
        starts = _starts(indices, array.shape, slice_sizes, "dynamic_slice")
        return array[tuple(slice(start, start + size) for start, size in zip(starts, slice_sizes, strict=True))]

    return move(cut, operand)


@rule("dynamic_update_slice")
def _dynamic_update_slice(tracer: Tracer, operand: Operand, update: Operand, *indices: Operand) -> Operand:
    def put(array, new):
        starts = _starts(indices, array.shape, new.shape, "dynamic_update_slice")
        result = array.copy()
        result[tuple(slice(start, start + size) for start, size in zip(starts, new.shape, strict=True))] = new
        return result

    return move(put, *alike(tracer, operand, update))


def _positions(indices: Operand, shape, window_shape, result_shape, offset_dims, gone, index_map, batching) -> list:
    """For each element of a gather's result (or a scatter's update), where it stands in the operand."""
    if isinstance(indices, Symbols):
        raise Unsupported("gather or scatter at computed indices")
    operand_batching, indices_batching = batching
    grid = np.indices(result_shape)
    batch = [grid[axis] for axis in range(len(result_shape)) if axis not in offset_dims]
    window = [axis for axis in range(len(shape)) if axis not in gone and axis not in operand_batching]
    where = [np.zeros(result_shape, int) for _ in shape]
    for k, axis in enumerate(index_map):
        start = indices[(*batch, k)] if batch else np.broadcast_to(indices[k], result_shape)
        where[axis] = np.clip(start, 0, shape[axis] - window_shape[axis])
        if np.any(where[axis] != start):
            raise Unsupported("gather or scatter outside the array")
    for axis, along in zip(operand_batching, indices_batching, strict=True):
        where[axis] = batch[along]
    for axis, along in zip(window, offset_dims, strict=True):
        where[axis] = where[axis] + grid[along]
    return where


@rule("gather")
def _gather(_tracer, operand: Operand, indices: Operand, *, dimension_numbers: Any, slice_sizes, **_) -> Operand:
    if isinstance(indices, Symbols):
        raise Unsupported("gather at computed indices")
    numbers = dimension_numbers
    gone = numbers.collapsed_slice_dims
    batching = (numbers.operand_batching_dims, numbers.start_indices_batching_dims)

    def pick(array):
        kept = [n for k, n in enumerate(slice_sizes) if k not in gone and k not in batching[0]]
        shape, offset = list(indices.shape[:-1]), numbers.offset_dims
        for axis, size in zip(offset, kept, strict=True):
            shape.insert(axis, size)
        start_map = numbers.start_index_map
        where = _positions(indices, array.shape, slice_sizes, tuple(shape), offset, gone, start_map, batching)
        return array[tuple(where)]

    return move(pick, operand)


def _scatter_positions(shape, indices: Operand, update_shape, numbers) -> list:
    gone, offset = numbers.inserted_window_dims, numbers.update_window_dims
    batching = (numbers.operand_batching_dims, numbers.scatter_indices_batching_dims)
    sizes = iter(update_shape[axis] for axis in offset)
    window = [1 if k in gone or k in batching[0] else next(sizes) for k in range(len(shape))]
    return _positions(
        indices, shape, window, update_shape, offset, gone, numbers.scatter_dims_to_operand_dims, batching
    )


@rule("scatter")
def _scatter(tracer: Tracer, operand: Operand, indices: Operand, update: Operand, *, dimension_numbers, **_) -> Operand:
    def put(array, new):
        result = array.copy()
        result[tuple(_scatter_positions(array.shape, indices, new.shape, dimension_numbers))] = new
        return result

    return move(put, *alike(tracer, operand, update))


@rule("scatter-add", "scatter_add")
def _scatter_add(tracer: Tracer, operand, indices: Operand, update, *, dimension_numbers, **_) -> Operand:
    operand, update = tracer.symbols(operand), tracer.symbols(update)
    result = operand.values.copy()
    where = _scatter_positions(result.shape, indices, update.values.shape, dimension_numbers)
    flat = np.ravel_multi_index(where, result.shape).ravel().tolist() if result.ndim else [0]
    target = result.reshape(-1)
    for position, value in zip(flat, update.values.ravel().tolist(), strict=True):
        target[position] = tracer.builder.op("add", int(target[position]), value)
    return Symbols(target.reshape(result.shape))
