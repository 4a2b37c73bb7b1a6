"""Every MJCF file of gymnasium and dm_control: loaded and equal to MuJoCo's, or refused with a reason."""

import warnings
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from robots import relative
from test_free_base import against_mujoco

import diffnea as dn

AGREE = 1e-9
SAMPLES = 3
MANY = 30  # joints of one robot: three files with more would take half of the time
TITLE = "MJCF files of gymnasium and dm_control, relative error against MuJoCo"
# What is no robot of ours: files with parts missing, files that MuJoCo refuses itself, and no MJCF.
REASONS = ("opening file", "repeated name", "larger than mjMINVAL", "use URDF (<robot>) or MJCF (<mujoco>)")


def _files() -> list[Path]:
    specs = [find_spec(package) for package in ("gymnasium", "dm_control")]  # dm_control is not there for all Pythons
    folders = [Path(str(spec.origin)).parent for spec in specs if spec is not None]
    return sorted(path for folder in folders for path in folder.rglob("*.xml"))


def _load(path: Path) -> dn.Robot | str:
    """The robot, or why it is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            return dn.load_robot(path, couplings=False)
        except dn.RobotFileError as error:
            assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
            return str(error).removeprefix(f"{path}: ")


class Witness:
    """MuJoCo's model without contacts, limits, dry friction and equalities, at random states and commands."""

    def __init__(self, path: Path, robot: dn.Robot, gravity: np.ndarray):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # on old attributes
            self.model = model = mujoco.MjSpec.from_file(str(path)).compile()
        flag = mujoco.mjtDisableBit
        weightless = bool(model.opt.disableflags & flag.mjDSBL_GRAVITY)
        np.testing.assert_array_equal(robot.gravity, np.zeros(3) if weightless else model.opt.gravity)
        model.opt.gravity = gravity
        model.opt.disableflags = flag.mjDSBL_CONSTRAINT | flag.mjDSBL_CLAMPCTRL
        rng = np.random.default_rng(model.nv)
        self.q, self.qd, self.u = rng.normal(size=(3, SAMPLES, model.nv)) * np.array([2.0, 1.0, 0.1])[:, None, None]
        rows = [self._ask(robot, *row) for row in zip(self.q, self.qd, self.u, strict=True)]
        self.tau, self.qdd, self.M, self.poses = (np.array(column) for column in zip(*rows, strict=True))

    def _ask(self, robot, q, qd, u):
        model, data = self.model, mujoco.MjData(self.model)
        joints = model.actuator_trnid[:, 0]
        on_joints = model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT
        data.qpos, data.qvel, data.ctrl = q, qd, np.where(on_joints, u[joints], 0.0)[: model.nu]
        mujoco.mj_forward(model, data)
        motors = on_joints & (model.actuator_biastype == 0) & (model.actuator_dyntype == 0)
        if model.nu and motors.all():  # a command reaches the joint through the robot's gear
            np.testing.assert_allclose(data.qfrc_actuator, np.asarray(robot.gear) * u, rtol=1e-12)
        M = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, M)
        # Springs, dampers, fluid and servos are no part of the robot: what they do goes in as torque.
        return data.qfrc_actuator + data.qfrc_passive, data.qacc.copy(), M, self._poses(data, robot)

    def _poses(self, data, robot):
        poses = np.tile(np.eye(4), (robot.num_joints, 1, 1))
        for i, name in enumerate(robot.link_names):
            body = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_BODY, name)
            poses[i] = np.nan
            if body >= 0:
                poses[i] = np.eye(4)
                poses[i, :3, :3], poses[i, :3, 3] = data.xmat[body].reshape(3, 3), data.xpos[body]
        return poses


def _plain(robot: dn.Robot) -> bool:
    """Whether every joint has one coordinate, and they are few; others are compared one by one, by `make test-all`."""
    return robot.tree.simple and robot.num_joints <= MANY


def _forest(robots: list[dn.Robot]) -> dn.Robot:
    """Robots side by side as one, so that all of them take one compilation."""
    starts = np.cumsum([0, *(robot.num_joints for robot in robots)])
    trees = [robot.tree for robot in robots]
    parents = [p if p < 0 else p + int(k) for tree, k in zip(trees, starts, strict=False) for p in tree.parents]
    names = tuple(str(i) for i in range(len(parents)))
    tree = dn.Tree(tuple(parents), tuple(kind for one in trees for kind in one.kinds), names, names)
    structure = jax.tree.structure(replace(robots[0], tree=tree, name="", source=None))
    leaves = [jnp.concatenate(rows) for rows in zip(*map(jax.tree.leaves, robots), strict=True)]
    return replace(jax.tree.unflatten(structure, leaves), gravity=jnp.asarray([1.0, -2.0, -9.0]))


@pytest.fixture(scope="module")
def outcomes() -> dict[Path, tuple[str, int, dict[str, float], str]]:
    """Each file's verdict, joints, errors and a remark."""
    loaded = {path: _load(path) for path in _files()}
    found = {path: ("refused", 0, {}, robot) for path, robot in loaded.items() if isinstance(robot, str)}
    robots = {path: robot for path, robot in loaded.items() if not isinstance(robot, str)}
    found |= {path: ("without joints", 0, {}, "") for path in robots}
    found |= {
        path: ("free, large or with balls", robot.num_joints, {}, "")
        for path, robot in robots.items()
        if not _plain(robot)
    }
    robots = {
        path: replace(robot, springs=None) for path, robot in robots.items() if robot.num_joints and _plain(robot)
    }
    forest = _forest(list(robots.values()))
    witnesses = [Witness(path, robot, np.asarray(forest.gravity)) for path, robot in robots.items()]
    q, qd, tau = (np.concatenate([getattr(w, name) for w in witnesses], axis=1) for name in ("q", "qd", "tau"))
    qdd = np.asarray(dn.forward_dynamics(forest, q, qd, tau))
    M, poses = np.asarray(dn.mass_matrix(forest, q)), np.asarray(dn.forward_kinematics(forest, q))
    start = 0
    for path, witness in zip(robots, witnesses, strict=True):
        rows = slice(start, start + witness.model.nv)
        known = ~np.isnan(witness.poses)
        errors = {
            "qacc": relative(qdd[:, rows], witness.qdd),
            "M": relative(M[:, rows, rows], witness.M),
            "poses": relative(poses[:, rows][known], witness.poses[known]),
        }
        found[path] = ("loaded", witness.model.nv, errors, "")
        start = rows.stop
    return found


@pytest.mark.parametrize("path", _files(), ids=lambda path: "-".join(path.parts[-3:]))
def test_a_file_agrees_with_mujoco_or_is_refused_with_a_reason(path, outcomes, record_property):
    verdict, joints, errors, remark = outcomes[path]
    numbers = [f"{name} {error:.0e}" for name, error in errors.items()] or [""] * 3
    record_property(f"table: {TITLE}", [verdict, "/".join(path.parts[-3:]), joints, *numbers, remark])
    assert all(error < AGREE for error in errors.values()), errors
    assert verdict != "refused" or any(reason in remark for reason in REASONS), remark


@pytest.mark.slow
@pytest.mark.parametrize("path", _files(), ids=lambda path: "-".join(path.parts[-3:]))
def test_a_robot_that_is_free_or_large_or_has_balls_moves_as_in_mujoco(path):
    robot = _load(path)
    if isinstance(robot, str) or _plain(robot) or not robot.num_joints:
        pytest.skip("compared above, or refused")
    assert all(error < AGREE for error in against_mujoco(robot, path).values())


def test_most_files_with_joints_load(outcomes):
    moving = [path for path, (verdict, *_) in outcomes.items() if verdict == "loaded"]
    names = {path.name for path in moving}
    assert {"inverted_pendulum.xml", "pusher_v5.xml", "reacher.xml", "half_cheetah.xml", "swimmer.xml"} <= names
    if find_spec("dm_control") is not None:
        assert {"acrobot.xml", "cartpole.xml", "manipulator.xml", "jaco_arm.xml"} <= names
        assert len(moving) >= 34
