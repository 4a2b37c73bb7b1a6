"""Robot files of a collection beside MuJoCo: how many load, and whether all of their mechanics move as MuJoCo's do.

    python benchmarks/menagerie.py FOLDER/*/*.xml

Contacts, limits, actuators, and friction of joints are off in MuJoCo; springs, tendons, fluid and constraints are on.
At random states, with MuJoCo's velocities `T q̇`, these are compared: the mass matrix `Tᵀ M T`, the bias
`Tᵀ (M Ṫ q̇ + c − passive)`, and accelerations; where links close loops they are solved with MuJoCo's Jacobians, on the
manifold. A file is whole where all agree: 1e-8, with loops 1e-6.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import tyro
from tyro.conf import Positional

import diffnea as dn
from diffnea import manifold

mj: Any = mujoco  # its parts have no types
STEP = 1e-5
SPREAD = 0.4
SAME = 1e-5  # of rows of constraints: loops are closed to 1e-8
AGREE, LOOPS_AGREE = 1e-8, 1e-6


@dataclass(frozen=True)
class Options:
    """What to compare."""

    files: Positional[tuple[Path, ...]]
    samples: int = 2


def compiled(path: Path) -> Any:
    """MuJoCo's model; inertias of bodies that never move, which some files have wrong, do not matter."""
    try:
        return mj.MjModel.from_xml_path(str(path))
    except ValueError:
        spec = mj.MjSpec.from_file(str(path))
        still = list(spec.worldbody.bodies)
        while still:
            body = still.pop()
            if not body.joints:
                body.mass, body.inertia, body.explicitinertial = 1.0, np.ones(3), True
                for geom in body.geoms:
                    geom.mass = 0.0
                still += list(body.bodies)
        return spec.compile()


class Witness:
    """MuJoCo's matrices at a state of the robot, in the robot's coordinates."""

    def __init__(self, robot: dn.Robot, path: Path):
        self.robot, self.model = robot, compiled(path)
        flags = mj.mjtDisableBit
        off = flags.mjDSBL_CONTACT, flags.mjDSBL_LIMIT, flags.mjDSBL_ACTUATION, flags.mjDSBL_FRICTIONLOSS
        self.model.opt.disableflags |= sum(map(int, off))
        self.model.dof_damping[:] = 0
        self.data = mj.MjData(self.model)

    def turn(self, q: np.ndarray) -> np.ndarray:
        """T: MuJoCo's velocities from ours."""
        n = self.robot.num_velocities
        return np.asarray(dn.to_mujoco(self.robot, np.tile(q, (n, 1)), np.eye(n))[1]).T

    def moved(self, q: np.ndarray, qd: np.ndarray, t: float) -> np.ndarray:
        return np.asarray(dn.integrate(self.robot, q, qd, t))

    def at(self, q: np.ndarray, qd: np.ndarray) -> None:
        self.data.qpos[:], self.data.qvel[:] = dn.to_mujoco(self.robot, q, qd)
        mj.mj_forward(self.model, self.data)

    def gaps(self, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        """Slopes of what loops hold, in our velocities."""
        self.at(q, qd)
        kinds = int(mj.mjtEq.mjEQ_CONNECT), int(mj.mjtEq.mjEQ_WELD)
        rows = [k for k in range(self.data.nefc) if self._closes(k, kinds)]
        sparse, J = self.data, np.zeros((self.data.nefc, self.model.nv))
        if mj.mj_isSparse(self.model):
            mj.mju_sparse2dense(J, sparse.efc_J, sparse.efc_J_rownnz, sparse.efc_J_rowadr, sparse.efc_J_colind)
        else:
            J[:] = np.array(self.data.efc_J).reshape(J.shape)
        return J[rows] @ self.turn(q)

    def _closes(self, row: int, kinds: tuple[int, ...]) -> bool:
        equality = int(self.data.efc_type[row]) == int(mj.mjtConstraint.mjCNSTR_EQUALITY)
        return equality and int(self.model.eq_type[self.data.efc_id[row]]) in kinds

    def equations(self, q: np.ndarray, qd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`Tᵀ M T` and `Tᵀ (M Ṫ q̇ + c − passive)`."""
        ends = [self.turn(self.moved(q, qd, t)) @ qd for t in (STEP, -STEP)]
        drift, T = (ends[0] - ends[1]) / (2 * STEP), self.turn(q)
        self.at(q, qd)
        M = np.zeros((self.model.nv, self.model.nv))
        mj.mj_fullM(self.model, self.data, M)
        return T.T @ M @ T, T.T @ (M @ drift + self.data.qfrc_bias - self.data.qfrc_passive)

    def accelerations(self, q: np.ndarray, qd: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """q̈ by these, with multipliers where loops are."""
        M, bias = self.equations(q, qd)
        if self.robot.loops is None:
            return np.linalg.solve(M, tau - bias)
        J = self.gaps(q, qd)
        ends = [self.gaps(self.moved(q, qd, t), qd) @ qd for t in (STEP, -STEP)]
        left, sizes, right = np.linalg.svd(J, full_matrices=False)
        new = sizes > SAME * sizes[0]  # planar loops have rows that say nothing new
        J, rate = sizes[new, None] * right[new], -left.T[new] @ (ends[0] - ends[1]) / (2 * STEP)
        whole = np.block([[M, -J.T], [J, np.zeros((len(J), len(J)))]])
        return np.linalg.solve(whole, np.concatenate([tau - bias, rate]))[: len(M)]


def compare(robot: dn.Robot, path: Path, samples: int) -> dict[str, float]:
    """The largest relative errors over random states."""
    witness, rng, n = Witness(robot, path), np.random.default_rng(0), robot.num_velocities
    worst = {"M": 0.0, "bias": 0.0, "qacc": 0.0}
    for _ in range(samples):
        step, qd, tau = SPREAD * rng.normal(size=n), rng.normal(size=n), rng.normal(size=n)
        step = step if robot.loops is None else 0.1 * step
        q = np.asarray(manifold.displace(robot, manifold.neutral(robot), jnp.asarray(step)))
        if robot.loops is not None:
            q, qd = (np.asarray(each) for each in dn.close_loops(robot, q, qd))
        M, bias = witness.equations(q, qd)
        opened = robot if robot.loops is None else dn.Robot(**{**vars(robot), "loops": None})
        found = {
            "M": (np.asarray(dn.mass_matrix(opened, q)), M),
            "bias": (np.asarray(dn.inverse_dynamics(opened, q, qd, np.zeros(n))), bias),
            "qacc": (np.asarray(dn.forward_dynamics(robot, q, qd, tau)), witness.accelerations(q, qd, tau)),
        }
        for key, (ours, theirs) in found.items():
            worst[key] = max(worst[key], float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-300)))
    return worst


def rows(options: Options) -> Iterator[tuple[str, bool, bool]]:
    """What is said of each file, whether it loads and whether it is whole."""
    for path in options.files:
        name = "/".join(path.parts[-2:])
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                robot = dn.load_robot(path)
            except dn.RobotFileError as error:
                yield f"| {name} | refused: {str(error).removeprefix(str(path))[:90]} | | |", False, False
                continue
        left = [str(each.message).removeprefix(f"{path}: ")[:70] for each in said if "left out" in str(each.message)]
        left = [each for each in left if "actuator" not in each]
        errors = compare(robot, path, options.samples)
        whole = max(errors.values()) < (AGREE if robot.loops is None else LOOPS_AGREE)
        cells = ", ".join(f"{key} {value:.0e}" for key, value in errors.items())
        yield f"| {name} | {robot.num_velocities} | {cells} | {'; '.join(left)} |", True, whole


def main() -> None:
    """Print the table and the counts."""
    options = tyro.cli(Options)
    jax.config.update("jax_enable_x64", True)
    loaded = agreed = total = 0
    print("| file | q̇ | relative errors | left out |\n|---|---|---|---|")
    for line, loads, whole in rows(options):
        print(line if whole or not loads else f"{line} ← not whole", flush=True)
        total, loaded, agreed = total + 1, loaded + loads, agreed + whole
    print(f"{loaded} of {total} load, the whole mechanics of {agreed} agree with MuJoCo")


if __name__ == "__main__":
    main()
