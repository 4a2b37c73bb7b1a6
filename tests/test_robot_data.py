"""Every URDF file of the package example-robot-data: loaded and equal to Pinocchio's, or refused with a reason."""

import re
import warnings
from dataclasses import replace
from importlib import import_module
from importlib.metadata import files
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from robots import relative

import diffnea as dn

pinocchio: Any = import_module("pinocchio")  # its names are in compiled code
AGREE = 1e-9
TITLE = "URDF files of example-robot-data, relative error against Pinocchio"
# What no reader can make a robot of, and the words that say so.
REFUSED = {"falcon.urdf": 'its child "Z_propeller" is not a link', "ur3.urdf": "has no link"}


FILES = sorted(Path(str(file.locate())) for file in files("example-robot-data") or () if file.suffix == ".urdf")


def _load(path: Path) -> tuple[dn.Robot, str]:
    """The robot, and whether it had to be let in."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "(?s).*(treated as independent|no mass moves|no body has|read as none|left over|before <)"
        )
        try:
            return dn.load_robot(path, couplings=False), "loaded"
        except dn.RobotFileError as error:
            if "allow_unphysical" not in str(error):
                raise
            return dn.load_robot(path, couplings=False, allow_unphysical=True), "loaded with allow_unphysical"


class _Witness:
    """Pinocchio's model of the same file, asked in the order of the robot's joints."""

    def __init__(self, path: Path, names: tuple[str, ...]):
        self.model = pinocchio.buildModelFromUrdf(str(path))
        self.data = self.model.createData()
        self.joints = [self.model.joints[self.model.getJointId(name)] for name in names]
        self.order = [joint.idx_v for joint in self.joints]

    def configuration(self, q):
        full = pinocchio.neutral(self.model)
        for joint, angle in zip(self.joints, q, strict=True):
            full[joint.idx_q : joint.idx_q + joint.nq] = angle if joint.nq == 1 else (np.cos(angle), np.sin(angle))
        return full

    def vector(self, values):
        full = np.zeros(self.model.nv)
        full[self.order] = values
        return full

    def errors(self, robot, q, qd, third) -> dict[str, float]:
        model, data, order = self.model, self.data, self.order
        model.armature = self.vector(np.asarray(robot.armature))
        full_q, full_qd, full_third = self.configuration(q), self.vector(qd), self.vector(third)
        upper = np.triu(pinocchio.crba(model, data, full_q))
        tau = pinocchio.rnea(model, data, full_q, full_qd, full_third)[order]
        aba = pinocchio.aba(model, data, full_q, full_qd, full_third)[order]
        links_only = tau - np.asarray(robot.armature) * third
        Y = np.asarray(dn.regressor(robot, q, qd, third))
        return {
            "aba": relative(dn.forward_dynamics(robot, q, qd, third), aba),
            "rnea": relative(dn.inverse_dynamics(robot, q, qd, third), tau),
            "crba": relative(dn.mass_matrix(robot, q), (upper + np.triu(upper, 1).T)[np.ix_(order, order)]),
            "regressor": relative(Y @ np.asarray(dn.inertial_parameters(robot)), links_only),
        }


def _compare(path: Path) -> tuple[list, dict[str, float]]:
    """How a file was taken, how many joints it has, a remark; and the errors."""
    robot, how = _load(path)
    if robot.num_joints == 0:
        return [how, 0, "nothing moves"], {}
    q, qd, third = np.random.default_rng(0).normal(size=(3, robot.num_joints))
    witness = _Witness(path, robot.joint_names)
    assert witness.model.nv == robot.num_joints
    remark = ""
    if not np.linalg.matrix_rank(np.asarray(dn.mass_matrix(robot, q)), hermitian=True) == robot.num_joints:
        robot = replace(robot, armature=jnp.full(robot.num_joints, 0.1))
        remark = "joints without mass: compared with armature 0.1"
    return [how, robot.num_joints, remark], witness.errors(robot, q, qd, third)


# Of files with many joints, which take long to compile, these go with every run; the others with `make test-all`.
MANY, ALWAYS = 17, ("talos_reduced",)
JOINT = re.compile(r'<joint[^>]*type="(?:revolute|continuous|prismatic)"')


def _case(path: Path):
    slow = path.stem not in ALWAYS and len(JOINT.findall(path.read_text())) > MANY
    return pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize("path", list(map(_case, FILES)))
def test_a_file_agrees_with_pinocchio_or_is_refused_with_a_reason(path, record_property):
    reason = REFUSED.get(path.name)
    try:
        (how, joints, remark), errors = _compare(path)
    except dn.RobotFileError as error:
        assert reason is not None and reason in str(error)
        assert str(error).startswith(f"{path}: ")
        how, joints, remark, errors = "refused", 0, reason, {}
    found = [f"{name} {error:.0e}" for name, error in errors.items()] or [""] * 4
    record_property(f"table: {TITLE}", [how, path.name, joints, *found, remark])
    assert all(error < AGREE for error in errors.values()), errors
    assert (how == "refused") == (reason is not None)


def test_all_but_two_of_77_files_load():
    outcomes = []
    for path in FILES:
        try:
            outcomes.append(_load(path)[1])
        except dn.RobotFileError:
            outcomes.append("refused")
    assert len(outcomes) == 77
    assert outcomes.count("refused") == len(REFUSED)
    assert outcomes.count("loaded") == 73


@pytest.mark.parametrize("name", ["panda.urdf", "tiago_pro.urdf", "baxter.urdf"])
def test_a_real_file_written_back_unchanged_is_the_same_to_the_byte(name, tmp_path):
    path = next(file for file in FILES if file.name == name)
    robot, _ = _load(path)
    dn.save_robot(robot, tmp_path / name)
    assert (tmp_path / name).read_bytes() == path.read_bytes()
