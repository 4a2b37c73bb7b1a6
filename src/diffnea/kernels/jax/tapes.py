"""The two passes of a gradient through loops, where both can be kernels: made once, and found again by name."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

from diffnea.kernels.ir.program import IN_LOOP
from diffnea.kernels.jax import cache
from diffnea.kernels.jax.programs import can_be_kernel, program_of, switched_off
from diffnea.kernels.rules.function import Function
from diffnea.kernels.rules.tape import Flags, Tape, tape_of


def tape_for(function: Function, moved: Flags) -> Tape | None:
    """Two passes for the gradient of a function with loops in arguments that move; None if they cannot be kernels."""
    if switched_off() or function.name is not None and not function.loops:
        return None
    return _tape(function, moved)


@lru_cache(maxsize=4096)
def _tape(function: Function, moved: Flags) -> Tape | None:
    name = function.named("tape", moved)
    if name is None:
        return _made(function, moved)
    if (found := _recalled(function, moved, name)) is not None:
        return found
    made = _made(function, moved)
    if made is None:
        return None
    program = program_of(made.pull)
    assert program is not None
    written = tuple(IN_LOOP in output for output in program.outputs)
    besides = cache.arrays_as_text(made.forward.results[len(function.results) :])
    cache.note(f"tape\n{name}", [besides, made.sources, made.active, written])
    return _named(made, name, written)


def _made(function: Function, moved: Flags) -> Tape | None:
    tape = tape_of(function, moved)
    return tape if tape is not None and can_be_kernel(tape.forward) and can_be_kernel(tape.pull) else None


def _named(tape: Tape, name: str, written: Flags) -> Tape:
    forward = replace(tape.forward, name=f"{name} forward", loops=True)
    return tape._replace(forward=forward, pull=replace(tape.pull, name=f"{name} pull", loops=True, written=written))


def _recalled(function: Function, moved: Flags, name: str) -> Tape | None:
    """As another process noted it; its passes are traced only where their code is not found, or differentiated."""
    try:
        text, sources, active, written = cache.noted(f"tape\n{name}")
        besides, active, written = cache.arrays_from(text), tuple(map(bool, active)), tuple(map(bool, written))
        results = (*function.results, *besides)
        kept = [results[k] for k in sources]
        pulled = [result for result, moves in zip(function.results, active, strict=True) if moves]
        wanted = tuple(argument for argument, moves in zip(function.arguments, moved, strict=True) if moves)
        if len(written) != len(wanted):
            return None
    except (TypeError, ValueError, IndexError):  # nothing, or none of ours
        return None

    def pass_of(kind: str):
        def call(*operands: Any):
            tape = tape_of(function, moved)
            assert tape is not None
            return getattr(tape, kind).call(*operands)

        return call

    forward = Function(pass_of("forward"), function.arguments, results)
    pull = Function(pass_of("pull"), (*function.arguments, *kept, *pulled), wanted)
    return _named(Tape(forward, tuple(sources), active, pull), name, written)
