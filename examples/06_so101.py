"""From a LeRobot data set to a MuJoCo model: *Fit your SO-101 in ten minutes* on a simulated arm, about 15 s.

The arm is simulated by this package, and its log written as LeRobot does it: −100 … 100 of the calibrated range, 50 Hz.
Only the files are then used, as with a real arm.
"""

import importlib
import json
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import diffnea as dn
from diffnea.report import picture

jax.config.update("jax_enable_x64", True)

JOINTS = ("shoulder_lift", "elbow_flex", "wrist_flex")
RATE, SECONDS, EPISODES = 50, 12.0, 3
TICKS = 4096 / (2 * np.pi)
LINK = """
  <link name="{name}"><inertial><origin xyz="{length} 0 0"/><mass value="{mass}"/>
    <inertia ixx="1e-5" iyy="{moment}" izz="{moment}" ixy="0" ixz="0" iyz="0"/></inertial></link>"""
JOINT = """
  <joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/><origin xyz="{x} 0 0"/>
    <axis xyz="0 1 0"/><limit lower="-1.7" upper="1.7" effort="3" velocity="6"/></joint>"""


def robot_file(folder: Path) -> Path:
    """An arm of three joints in a plane, about as long and heavy as an SO-101."""
    sizes = {"upper_arm": (0.11, 0.16), "lower_arm": (0.13, 0.15), "hand": (0.08, 0.12)}
    text, parent, x = '<robot name="so"><link name="base"/>', "base", 0.0
    for joint, (link, (length, mass)) in zip(JOINTS, sizes.items(), strict=True):
        text += LINK.format(name=link, length=length / 2, mass=mass, moment=mass * length**2 / 12)
        text += JOINT.format(name=joint, parent=parent, child=link, x=x)
        parent, x = link, length
    (folder / "so.urdf").write_text(text + "</robot>")
    return folder / "so.urdf"


def real_arm(robot: dn.Robot) -> dn.Model:
    """Servos that nobody knows: gains, friction and a delay of 1.5 samples."""
    servo = dn.actuators.Servo.of(np.array([18.0, 18.0, 18.0]), np.array([1.1, 1.0, 0.9]))
    friction = dn.actuators.Coulomb.of(np.array([0.09, 0.07, 0.05]))
    return dn.Model(robot, dn.actuators.combine(servo, friction, dn.actuators.Delay.of(np.full(3, 1.5), 3, 8)))


def lerobot_set(folder: Path, robot: dn.Robot) -> tuple[Path, Path]:
    """Record some motions and write them as LeRobot does: a data set of version 3, and the arm's calibration."""
    span = {"range_min": 1024, "range_max": 3072}
    calibration = {name: {"id": k, "drive_mode": 0, "homing_offset": 0, **span} for k, name in enumerate(JOINTS)}
    (folder / "follower.json").write_text(json.dumps(calibration))
    share = 100 / (1024 / TICKS)  # of half the range, for a radian
    arm, rows = real_arm(robot), []
    for episode in range(EPISODES):
        rng, time = np.random.default_rng(episode), np.arange(0, SECONDS, 1 / RATE)
        size, pace, phase = (rng.uniform(*ends, (3, 3)) for ends in ((0.15, 0.4), (0.6, 4.0), (0.0, 6.0)))
        goal = np.sum(size * np.sin(pace * time[:, None, None] + phase), axis=1)
        q = np.asarray(dn.rollout(arm, goal[0], np.zeros(3), goal, 1 / RATE).q)
        read = np.round(q * TICKS) / TICKS  # 4096 steps a turn
        lists = {"observation.state": share * read, "action": share * goal}
        columns = {name: pa.array(list(values.astype(np.float32))) for name, values in lists.items()}
        rows.append(pa.table({"timestamp": time, "episode_index": np.full(len(time), episode), **columns}))
    feature = {"dtype": "float32", "shape": [3], "names": [f"{name}.pos" for name in JOINTS]}
    info = {"codebase_version": "v3.0", "fps": RATE, "features": {"observation.state": feature, "action": feature}}
    (folder / "set" / "meta").mkdir(parents=True)
    (folder / "set" / "meta" / "info.json").write_text(json.dumps(info))
    (folder / "set" / "data" / "chunk-000").mkdir(parents=True)
    pq.write_table(pa.concat_tables(rows), folder / "set" / "data" / "chunk-000" / "file-000.parquet")
    return folder / "set", folder / "follower.json"


def run_in_mujoco(path: Path, goals: np.ndarray) -> np.ndarray:
    """The written model under the same goals."""
    mujoco: Any = importlib.import_module("mujoco")  # its parts have no types
    model = mujoco.MjModel.from_xml_path(str(path))
    data, steps, states = mujoco.MjData(model), round(1 / RATE / model.opt.timestep), []
    data.ctrl[:] = goals[0]
    mujoco.mj_step(
        model, data, 100
    )  # its buffer of goals begins with zeros: hold the first one for longer than the delay
    data.qpos[:], data.qvel[:] = goals[0], 0.0
    for goal in goals:
        states.append(data.qpos.copy())
        data.ctrl[:] = goal
        mujoco.mj_step(model, data, steps)
    return np.array(states)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        robot = dn.load_robot(robot_file(folder))
        data, calibration = lerobot_set(folder, robot)
        columns = {"units": {"q": "normalised"}, "calibration": str(calibration)}
        *fitted, last = dn.recordings.load_recordings(data, robot, columns)

        fit = dn.fit(robot, fitted, actuator="servo+coulomb+delay")
        print(fit)
        fit.save(folder / "out")
        written = next((folder / "out").glob("*.xml"))
        run = dn.rollout(fit.model, last.q[0], np.zeros(3), last.u, 1 / RATE)

        def error(q: np.ndarray) -> float:
            return 1e3 * float(np.sqrt(np.mean((q - last.q) ** 2)))

        print(f"a motion that was not fitted, RMS error over {last.duration:.0f} s:")
        print(f"  goals taken for positions  {error(last.u):5.1f} mrad")
        print(f"  the fit                    {error(np.asarray(run.q)):5.1f} mrad")
        print(f"  {written.name} in MuJoCo  {error(run_in_mujoco(written, last.u)):5.1f} mrad")
        sides = {"fit": np.asarray(run.q), "goals": last.u, "measured": last.q}
        panels = {
            f"{joint} in rad": {name: (last.time, q[:, k]) for name, q in sides.items()}
            for k, joint in enumerate(JOINTS)
        }
        print(picture("06_so101.svg", panels, "time in s"))


if __name__ == "__main__":
    main()
