"""Docstrings: what is public says in a line what each of its arguments is."""

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import diffnea as dn

PARTS = (
    "actuators",
    "parameters",
    "recordings",
    "simulate",
    "systems",
    "identify",
    "excitation",
    "report",
    "benchmark",
)
# Classes whose methods a user calls; those of others are called by the package.
USED = ("Robot", "Model", "FeedForward", "Fit", "Recording", "BaseMotion", "Inertia", "Rollout")
# Of one sample and of a model's own space: what `AbstractModel` says of them holds.
OWN = ("predict", "displace", "difference", "rate", "close", "learned", "check")


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions of the package and of its parts, constructors of classes, and methods that users call."""
    for name in dn.__all__:
        if not inspect.ismodule(getattr(dn, name)):
            yield from _callables(f"dn.{name}", getattr(dn, name))
    for part in PARTS:
        module = importlib.import_module(f"diffnea.{part}")
        names = dir(module) if part != "benchmark" else ("cells", "groups", "resolve", "run", "run_cell")
        for name in names:
            if name[0] != "_" and getattr(getattr(module, name), "__module__", "").startswith("diffnea."):
                yield from _callables(f"dn.{part}.{name}", getattr(module, name))


def _callables(name: str, found: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    if inspect.isfunction(found):
        yield name, found
    for key, member in vars(found).items() if inspect.isclass(found) else ():
        made = isinstance(member, classmethod | staticmethod)
        if key[0] != "_" and key not in OWN and (made or (found.__name__ in USED and inspect.isfunction(member))):
            yield f"{name}.{key}", getattr(found, key)


@pytest.mark.parametrize(("name", "function"), [pytest.param(*each, id=each[0]) for each in public()])
def test_each_argument_has_its_line(name, function):
    text = inspect.getdoc(function) or ""
    arguments = [each for each in inspect.signature(function).parameters if each not in ("self", "args", "kwargs")]
    missing = [each for each in arguments if not re.search(rf"^\s+{each}: \S", text, re.M)]
    assert text and not missing, f"{name} says nothing of {', '.join(missing)}"


def test_an_argument_has_one_place_everywhere():
    """A robot or a model comes first, then q, then q̇, and then what makes them change."""
    order = ("robot", "model", "q", "q0", "qd", "qd0", "tau", "u", "qdd", "dt")
    for name, function in public():
        known = [key for key, each in inspect.signature(function).parameters.items() if key in order]
        if name.endswith("_pinocchio"):  # its `model` is Pinocchio's
            known.remove("model")
        assert known == sorted(known, key=order.index), (name, known)


@pytest.mark.parametrize(
    "made", [dn.Model, dn.Recording, dn.Samples, dn.BaseMotion, dn.Foot], ids=lambda made: made.__name__
)
def test_what_users_make_says_what_of(made):
    text = f"{inspect.getdoc(made)}\n{inspect.getdoc(made.__init__)}"
    missing = [each for each in inspect.signature(made).parameters if not re.search(rf"^\s+{each}: \S", text, re.M)]
    assert not missing, f"{made.__name__} says nothing of {', '.join(missing)}"
