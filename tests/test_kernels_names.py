"""Kernels found by name: a second process traces nothing and says the same; what may have changed is not found."""

import os
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest
from robots import random_robot, random_tree

import diffnea as dn
from diffnea import dynamics
from diffnea.identify.problem.residuals import Form
from diffnea.kernels.jax import cache

PROGRAM = """
import sys, jax, numpy as np
jax.config.update("jax_enable_x64", True)
import diffnea as dn
from diffnea.kernels.rules import tracer

if "untraced" in sys.argv:
    def program_of(*_):
        raise AssertionError("traced again")
    tracer.program_of = program_of
robot = dn.systems.furuta().robot
q, qd, tau = np.random.default_rng(0).normal(size=(3, 5, 2))
qdd = dn.forward_dynamics(robot, q, qd, tau)
by_state = jax.jit(jax.grad(lambda q: dn.forward_dynamics(robot, q, qd, tau).sum()))(q)
by_robot = jax.jit(jax.grad(lambda robot: dn.forward_dynamics(robot, q, qd, tau).sum()))(robot)
print(np.asarray(qdd).tobytes().hex(), np.asarray(by_state).tobytes().hex(), by_robot.inertia.mass.tolist())

from diffnea.identify.problem.residuals import problem
from diffnea.identify.problem.measurements.rows import Batch
from diffnea.identify.problem.unknowns import unknowns

free = unknowns(robot, ("inertia",), "viscous", jax.random.key(0))
fitted = problem("acceleration", free, Batch(q, qd, tau, tau[:, None], np.ones((5, 2))), 1)
normal = fitted.normal(free.start[None])
print(fitted.loss(free.start[None]).tolist(), normal.loss.tolist(), normal.matrix.tobytes().hex())

# Loops: a roll-out, its gradient in commands of each sample, in those that all share, and in the model, its tangents,
# and a product with its second derivative.
model = dn.Model(robot, dn.actuators.Viscous.of(0.1, num_joints=2))
each, shared = np.random.default_rng(1).normal(size=(5, 9, 2)), np.random.default_rng(2).normal(size=(9, 2))


def loss(model, u):
    return dn.rollout(model, q, qd, u, 0.01).q.sum()


def pushed(u):
    return jax.jvp(lambda u: loss(model, u), (u,), (np.ones_like(u),))[1]


values = [dn.rollout(model, q, qd, each, 0.01).q, pushed(each)]
values += [jax.jit(jax.grad(loss, 1))(model, u) for u in (each, shared)]
values += jax.tree.leaves(jax.jit(jax.grad(loss))(model, each))
values.append(jax.jit(lambda u: jax.jvp(jax.grad(lambda u: loss(model, u)), (u,), (u,))[1])(each))
print([np.asarray(value).tobytes().hex() for value in values])
"""


def _run(cache: Path, *arguments: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "DIFFNEA_CACHE": str(cache)}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False, env=environment
    )


@pytest.mark.slow
def test_a_second_process_traces_nothing_and_finds_the_same(tmp_path):
    assert "traced again" in _run(tmp_path, "untraced").stderr
    first, second = _run(tmp_path), _run(tmp_path, "untraced")
    assert first.returncode == second.returncode == 0, second.stderr
    assert first.stdout == second.stdout


def _at_home(robot, q):
    return q


class _TheirModule(eqx.Module):
    gain: float


def test_a_structure_with_a_class_of_the_users_has_no_name():
    ours, theirs = map(jax.tree.structure, (dn.actuators.Viscous.of(0.1, num_joints=2), _TheirModule(1.0)))
    assert cache.full_name("f", ours, ()) is not None
    assert cache.full_name("f", jax.tree.structure((dn.systems.furuta().robot, _TheirModule(1.0))), ()) is None
    masks = jax.tree.map(lambda _: True, _TheirModule(1.0))
    assert Form.of("torque", ours, jax.tree.map(lambda _: True, 1.0)).name(Form.residual) is not None
    assert Form.of("torque", theirs, masks).name(Form.residual) is None


def test_only_the_packages_own_functions_have_names():
    def inner(robot, q):
        return q

    assert cache.name_of(dynamics.forward) is not None
    assert cache.name_of(dynamics.forward, b"other") != cache.name_of(dynamics.forward)
    assert cache.name_of(inner) is None
    assert cache.name_of(_at_home) is None
    inner.__module__ = "diffnea.inner"
    assert cache.name_of(inner) is None


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of one file."""
    monkeypatch.setattr(cache, "PACKAGE", tmp_path)
    path = tmp_path / "part.py"
    path.write_text("x = 1\n")
    return path


def test_a_name_changes_with_text_structure_and_shapes(package):
    two, three = (jax.tree.structure(random_robot(random_tree(0, count), 0)) for count in (2, 3))
    shapes = (((2,), "float64"),)
    name = cache.full_name("f", two, shapes)
    assert name == cache.full_name("f", two, shapes)
    assert len({name, cache.full_name("f", three, shapes), cache.full_name("f", two, (((3,), "float64"),))}) == 3
    package.write_text("x = 2\n")
    os.utime(package, ns=(0, 0))
    assert cache.full_name("f", two, shapes) != name


def test_a_structure_with_an_address_in_its_text_has_no_name():
    structure = jax.tree.structure(jax.tree_util.Partial(np.sum if "at 0x" in repr(np.sum) else lambda: 0, 1.0))
    assert " at 0x" in str(structure)
    assert cache.full_name("f", structure, ()) is None
