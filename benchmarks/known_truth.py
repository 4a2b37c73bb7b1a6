"""Arms simulated in MuJoCo with friction, rotors, noise and a late command, fitted from 25 % off: is the truth found?

    python benchmarks/known_truth.py [panda] [ur10] [gantry] [--seed 0] [--seconds 20]

For each arm: the delay found; torque errors on a fresh recording beside those of the true robot on the same recording,
which are the floor that noise sets; and the identified files read by Pinocchio and MuJoCo, whose torques must be the
model's own.
"""

import argparse
import re
import tempfile
import time
from dataclasses import dataclass, replace
from importlib.metadata import files
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pinocchio

jax.config.update("jax_enable_x64", True)

import diffnea as dn  # noqa: E402
from diffnea import parameters  # noqa: E402
from diffnea.actuators import Delay, Stribeck  # noqa: E402
from diffnea.identify.io.store import robot_files  # noqa: E402
from diffnea.identify.problem.measurements.rows import taps_of  # noqa: E402
from diffnea.identify.problem.torque_balance import torques  # noqa: E402
from diffnea.recordings.signal.terms import terms  # noqa: E402

RATE, HARMONICS, BASE = 250, 10, 0.2
DELAY, STEPS = 2, 400  # samples; steps of the simulation a sample: few, and its half step shows as a shorter delay
NOISE = 2e-5  # rad or m

GANTRY = """<robot name="gantry"><link name="base"/>
<link name="slider"><inertial><origin xyz="0 0 0.1"/><mass value="6"/>
<inertia ixx="0.05" iyy="0.06" izz="0.04" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="upper"><inertial><origin xyz="0.2 0.01 0"/><mass value="3"/>
<inertia ixx="0.01" iyy="0.05" izz="0.05" ixy="0.001" ixz="0" iyz="0"/></inertial></link>
<link name="fore"><inertial><origin xyz="0.15 0 0.02"/><mass value="1.5"/>
<inertia ixx="0.004" iyy="0.02" izz="0.02" ixy="0" ixz="0.0005" iyz="0"/></inertial></link>
<joint name="lift" type="prismatic"><parent link="base"/><child link="slider"/><axis xyz="0 0 1"/>
<limit lower="-0.4" upper="0.4" effort="400" velocity="2"/></joint>
<joint name="shoulder" type="revolute"><parent link="slider"/><child link="upper"/><origin xyz="0.1 0 0.2"/>
<axis xyz="0 1 0"/><limit lower="-2" upper="2" effort="100" velocity="4"/></joint>
<joint name="elbow" type="revolute"><parent link="upper"/><child link="fore"/><origin xyz="0.4 0 0"/>
<axis xyz="0 1 0"/><limit lower="-2.5" upper="2.5" effort="50" velocity="6"/></joint></robot>"""
SHIPPED = {"panda": "panda.urdf", "ur10": "ur10_joint_limited_robot.urdf"}


def arm(name: str) -> dn.Robot:
    """An arm with rotors and friction: the truth."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.urdf"
        path.write_text(GANTRY if name == "gantry" else _shipped(SHIPPED[name]))
        robot = dn.load_robot(path)
    size = np.where(np.isfinite(robot.limits.effort), robot.limits.effort, 50.0)
    return replace(robot, armature=0.003 * size, damping=0.01 * size, friction=0.01 * size)


def _shipped(name: str) -> str:
    """Of example-robot-data, without meshes, which MuJoCo would look for; the Panda's fingers are fixed."""
    (path,) = (file.locate() for file in files("example-robot-data") or () if file.name == name)
    text = Path(str(path)).read_text()
    text = re.sub(r"<(visual|collision)\b.*?</\1>", "", text, flags=re.DOTALL)
    for finger in ("panda_finger_joint1", "panda_finger_joint2"):
        text = text.replace(f'<joint name="{finger}" type="prismatic">', f'<joint name="{finger}" type="fixed">')
    return text


def _middle(robot: dn.Robot) -> np.ndarray:
    return (np.asarray(robot.limits.lower) + np.asarray(robot.limits.upper)) / 2


def plan(robot: dn.Robot, times: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A Fourier series within the limits: positions, velocities and accelerations."""
    rng = np.random.default_rng(seed)
    k = 2 * np.pi * BASE * np.arange(1, HARMONICS + 1)
    a, b = rng.standard_normal((2, HARMONICS, robot.num_joints)) / np.arange(1, HARMONICS + 1)[None, :, None] ** 0.5
    reach = np.minimum((np.asarray(robot.limits.upper) - np.asarray(robot.limits.lower)) / 2, 1.5)
    size = 0.9 * reach / (np.abs(a) + np.abs(b)).sum(0)
    s, c = np.sin(np.outer(times, k)), np.cos(np.outer(times, k))
    q = _middle(robot) + size * (s @ a + c @ b)
    return q, size * ((c * k) @ a - (s * k) @ b), size * (-(s * k**2) @ a - (c * k**2) @ b)


def record(robot: dn.Robot, seconds: float, seed: int) -> dn.Recording:
    """The arm in MuJoCo under a rough controller, whose commands come two samples late; noisy positions."""
    times = np.arange(0, seconds, 1 / RATE)
    q, qd, qdd = plan(robot, times, seed)
    ahead = np.asarray(dn.inverse_dynamics(robot, q, qd, qdd)) + robot.damping * qd + robot.friction * np.tanh(20 * qd)
    stiff = 40.0 * np.diag(np.asarray(dn.mass_matrix(robot, _middle(robot))))
    with tempfile.TemporaryDirectory() as folder:
        dn.save_robot(robot, Path(folder) / "arm.xml", fresh=True)
        model = mujoco.MjModel.from_xml_path(str(Path(folder) / "arm.xml"))
    model.opt.timestep, model.opt.integrator = 1 / RATE / STEPS, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT)
    # Dry friction in MuJoCo is a soft constraint; harder than its default, so that it is dry.
    model.dof_solref[:] = [2 * model.opt.timestep, 1.0]
    data, sent, seen = mujoco.MjData(model), [], []
    data.qpos[:], data.qvel[:] = q[0], qd[0]
    for i in range(len(times)):
        seen.append(data.qpos.copy())
        sent.append(ahead[i] + stiff * (q[i] - data.qpos) + 0.2 * stiff * (qd[i] - data.qvel))
        data.qfrc_applied[:] = sent[max(i - DELAY, 0)]
        mujoco.mj_step(model, data, STEPS)
    noise = np.random.default_rng(seed + 1).normal(scale=NOISE, size=q.shape)
    return dn.Recording(time=times, q=np.array(seen) + noise, u=np.array(sent), joint_names=robot.joint_names)


def off(robot: dn.Robot, share: float, seed: int) -> dn.Robot:
    """The arm with every inertial number off by so much, without rotors and friction."""
    virtual = parameters.encode(robot, nearest=True)
    masks = parameters.learnable(virtual, ("inertia",))
    scale = np.tile([0.5] + [1.0] * 3 + [float(virtual.length_scale)] * 6, robot.num_joints)
    moved = np.random.default_rng(seed).standard_normal(len(scale)) * share * scale
    start = parameters.decode(parameters.unpack(virtual, masks, parameters.pack(virtual, masks) + jnp.asarray(moved)))
    nothing = np.zeros(robot.num_joints)
    return replace(start, armature=0.5 * np.asarray(robot.armature), damping=nothing, friction=nothing)


# What is compared ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Torques:
    """A fresh recording's equations of motion, low-passed as the fit does it."""

    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    u: np.ndarray
    taps: np.ndarray

    @classmethod
    def of(cls, recording: dn.Recording) -> "Torques":
        found = terms(recording, dn.recordings.smooth(recording))
        taps = taps_of(2 * np.pi * found.bandwidth / RATE).reshape(-1)
        return cls(*(array[DELAY:] for array in (found.q, found.qd, found.qdd)), found.u[:-DELAY], taps)

    def error(self, model: dn.Model) -> np.ndarray:
        """Root mean square, joint by joint, of the model's torque against the command that acts by now."""
        left = torques(model, self.q, self.qd, self.qdd, self.u).left
        wrong = [np.convolve(column, self.taps, "valid") for column in left.T]
        return np.sqrt(np.mean(np.square(wrong), axis=1))


def files_agree(fit: dn.Fit, folder: Path, at: Torques) -> tuple[float, float, float]:
    """Largest relative differences in torque: URDF in Pinocchio and in MuJoCo without rotors, MJCF in MuJoCo with."""
    robot, rows = fit.robot, slice(0, None, len(at.q) // 20)
    urdf, mjcf = robot_files(fit.verdict)
    q, qd, qdd = at.q[rows], at.qd[rows], at.qdd[rows]
    whole = np.asarray(dn.inverse_dynamics(robot, q, qd, qdd))
    links = whole - np.asarray(robot.armature) * qdd
    model = pinocchio.buildModelFromUrdf(str(folder / urdf))
    keep = [model.joints[model.getJointId(name)].idx_q for name in robot.joint_names]
    data, by_pinocchio = model.createData(), []
    for sample in zip(q, qd, qdd, strict=True):
        full = [np.zeros(model.nv) for _ in sample]
        for array, values in zip(full, sample, strict=True):
            array[keep] = values
        by_pinocchio.append(pinocchio.rnea(model, data, *full)[keep])

    def by_mujoco(name: str) -> np.ndarray:
        machine = mujoco.MjModel.from_xml_path(str(folder / name))
        machine.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
        machine.dof_damping[:] = 0
        places = [machine.joint(name).qposadr[0] for name in robot.joint_names]
        state, found = mujoco.MjData(machine), []
        for sample in zip(q, qd, qdd, strict=True):
            for array, values in zip((state.qpos, state.qvel, state.qacc), sample, strict=True):
                array[places] = values
            mujoco.mj_inverse(machine, state)
            found.append(state.qfrc_inverse[places].copy())
        return np.array(found)

    def apart(found: Any, wanted: np.ndarray) -> float:
        return float(np.max(np.abs(np.asarray(found) - wanted)) / np.max(np.abs(wanted)))

    return (
        apart(by_pinocchio, links),
        apart(by_mujoco(urdf), links),
        apart(by_mujoco(mjcf), whole),
    )


def study(name: str, seconds: float, seed: int) -> None:
    """One arm, printed."""
    truth = arm(name)
    n = truth.num_joints
    *data, test = [record(truth, seconds / 2, 10 * seed + k) for k in (1, 2, 3)]
    start = off(truth, 0.25, seed)
    begun, cpu = time.perf_counter(), time.process_time()
    fit = dn.fit(
        start, data, learn=("inertia", "armature", "actuator"), actuator="stribeck+delay", loss="torque", test=test
    )
    took = f"{time.perf_counter() - begun:.1f} s, {time.process_time() - cpu:.1f} s of processor time"
    fresh = Torques.of(test)
    true = dn.Model(truth, Stribeck.of(truth.friction, truth.friction, truth.damping, 400.0, n))
    floor, found, guess = (fresh.error(each) for each in (true, fit.model, dn.Model(start)))
    delay = next(part for part in fit.model.actuator.parts if isinstance(part, Delay)).delay
    print(f"{name}: {n} joints, fit in {took}; {fit.verdict}: {'; '.join(fit.verdict.reasons)}")
    intervals = [f"{each.lower:.3f} … {each.upper:.3f}" for each in fit.identifiable if "delay" in each.formula]
    print(f"  delay found {float(delay[0]):.3f} samples ({' '.join(intervals) or 'not determined'}), truth {DELAY}")
    for words, errors in (("start", guess), ("fit", found), ("truth", floor)):
        print(f"  torque error of the {words:6}", " ".join(f"{error:9.4f}" for error in errors))
    print(f"  fit over truth: worst {np.max(found / floor):.3f}, mean {np.mean(found / floor):.3f}")
    with tempfile.TemporaryDirectory() as folder:
        fit.save(folder)
        agree = files_agree(fit, Path(folder), fresh)
    print("  robot files: URDF in Pinocchio {:.0e}, URDF in MuJoCo {:.0e}, MJCF in MuJoCo {:.0e}".format(*agree))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("arms", nargs="*", choices=["panda", "ur10", "gantry", []], default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    for name in options.arms or ["gantry", "ur10", "panda"]:
        study(name, options.seconds, options.seed)


if __name__ == "__main__":
    main()
