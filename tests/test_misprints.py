"""The paper's equations as printed, each planted in a copy of the package, must be caught by the tests' own checks."""

import importlib
import shutil
import sys
from pathlib import Path

import jax
import pinocchio
import pytest
from robots import in_pinocchio, random_robot, random_state, relative
from test_dynamics import LAW, assert_matches_pinocchio

import diffnea as dn

SOURCE = Path(dn.__file__).parent

# A chain of three with a branch: row 4 needs three bodies in a row, row 3 a prismatic joint that carries another.
TREE = dn.Tree(
    (-1, 0, 1, 0), ("revolute", "prismatic", "revolute", "continuous"), tuple("abcd"), ("A", "B", "C", "D")
)  # fmt: skip

MISPRINTS = {
    "1 inertia in [angular, linear] order": (
        "spatial.py",
        "jnp.block([[self.mass * jnp.eye(3, dtype=h.dtype), -h], [h, self.rotational_matrix]])",
        "jnp.block([[self.rotational_matrix, h], [-h, self.mass * jnp.eye(3, dtype=h.dtype)]])",
    ),
    "2 parallel axis with the wrong sign": (
        "formats/inertia.py",
        "_flip(rotational) + mass * np.outer(centre, centre)",
        "_flip(rotational) - mass * np.outer(centre, centre)",
    ),
    "2 in composite bodies": ("spatial.py", "body.second) + about_parent)", "body.second) - about_parent)"),
    "3 prismatic joints without a rotation block": (
        "spatial.py",
        "return Transform(rotation, axis",
        "return Transform(jnp.where(revolute, rotation, 0 * rotation), axis",
    ),
    "4 bias force with the lumped inertia": (
        "dynamics/articulated.py",
        "b = -ad(v).T @ (M @ v)",
        "b = -ad(v).T @ (M_hat @ v)",
    ),
    "5 minus the bias force in the acceleration": (
        "dynamics/articulated.py",
        "X.T @ (b + beta)), (U, psi, tau_free)",
        "X.T @ (b + beta)), (U, psi, tau + s @ b)",
    ),
    "5 in the solution by the mass matrix": (
        "dynamics/forward_dynamics.py",
        "tau - bias(robot, q, qd, bodies)",
        "tau + bias(robot, q, qd, bodies)",
    ),
    "6 ad* of the other sign": ("dynamics/articulated.py", "b = -ad(v).T @ (M @ v)", "b = ad(v).T @ (M @ v)"),
    "6 in Newton-Euler": ("dynamics/newton_euler.py", "skew(wd) + skew(w) @ skew(w)", "skew(wd) - skew(w) @ skew(w)"),
    "7 wrenches carried the wrong way": (
        "spatial.py",
        "force = R @ f[:3]\n        return jnp.concatenate([force, R @ f[3:] + skew(p) @ force])",
        "return jnp.concatenate([R.T @ f[:3], R.T @ (f[3:] - skew(p) @ f[:3])])",
    ),
    "8 no gravity": ("dynamics/newton_euler.py", "[-robot.gravity, jnp", "[0 * robot.gravity, jnp"),
    "9 ad with the blocks exchanged": (
        "spatial.py",
        "[[angular, linear], [jnp.zeros_like(angular), angular]]",
        "[[angular, jnp.zeros_like(angular)], [linear, angular]]",
    ),
}


@pytest.fixture(autouse=True)
def _one_operation_after_the_other(monkeypatch):
    """Copies of the package in one process cannot each register their kernels with XLA, and the maths is the same.

    Without `jit` they share the few operations that are compiled.
    """
    monkeypatch.setenv("DIFFNEA_KERNELS", "off")
    with jax.disable_jit():
        yield


def _plant(folder: Path, name: str, file: str, old: str, new: str):
    """A copy of the package under another name, with one passage changed."""
    shutil.copytree(SOURCE, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (folder / name).rglob("*.py"):
        text = path.read_text()
        if path == folder / name / file:
            assert text.count(old) == 1, f"{file} no longer has the passage: {old}"
            text = text.replace(old, new)
        path.write_text(text.replace("from diffnea", f"from {name}"))
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))


def _articulated(module, *state):
    """Forward dynamics in the paper's form."""
    return module.dynamics.aba(*state)


def _check(module, folder: Path) -> None:
    """Pinocchio agrees with the algorithms, and with the inertia that a file gives about the centre of mass."""
    robot = random_robot(TREE, 2, module)
    assert_matches_pinocchio(module, robot)
    model = in_pinocchio(robot)
    q, qd, tau = random_state(4, 2)
    assert relative(_articulated(module, robot, q, qd, tau), pinocchio.aba(model, model.createData(), q, qd, tau)) < LAW
    path = folder / "robot.urdf"
    dn.save_robot(random_robot(TREE, 2), path)
    model = pinocchio.buildModelFromUrdf(str(path))
    wanted = [model.inertias[model.getJointId(joint)].toDynamicParameters() for joint in TREE.joint_names]
    assert relative(module.load_robot(path, allow_unphysical=True).inertia.parameters, wanted) < LAW


def test_the_equations_as_they_stand_pass(tmp_path):
    _check(_plant(tmp_path, "as_it_stands", "spatial.py", "import equinox", "import equinox"), tmp_path)


@pytest.mark.parametrize("row", MISPRINTS)
def test_a_misprint_is_caught(row, tmp_path):
    module = _plant(tmp_path, "misprint_" + "".join(filter(str.isalnum, row)), *MISPRINTS[row])
    with pytest.raises(AssertionError):
        _check(module, tmp_path)


@pytest.mark.parametrize("row", [row for row in MISPRINTS if row[0] in "4567" and " in " not in row[:5]])
def test_a_misprint_in_forward_dynamics_breaks_a_law(row, tmp_path):
    """Without a witness too: inverse dynamics do not undo forward dynamics."""
    module = _plant(tmp_path, f"lawless_{row.split()[0]}", *MISPRINTS[row])
    robot = random_robot(TREE, 3, module)
    q, qd, tau = random_state(4, 3)
    back = module.inverse_dynamics(robot, q, qd, _articulated(module, robot, q, qd, tau))
    assert relative(back, tau) > LAW
