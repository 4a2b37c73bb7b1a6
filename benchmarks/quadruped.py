"""A simulated quadruped: Go2 of MuJoCo's Menagerie in the air and trotting, its trunk and a payload found from torques.

    python benchmarks/quadruped.py PATH/unitree_go2/go2.xml [--seconds 20] [--repeats 1] [--payload 1.5]

or with DIFFNEA_ROBOTS set to the folder that holds `unitree_go2`. MuJoCo simulates with contacts and friction; recorded
are joint positions and torques, an accelerometer and a gyroscope, with noise. The sensor low-passes before it gives a
sample out, as real ones do: what is sampled at the instants at which torques jump is 0.05 % too small on average. The
robot file that a fit starts from knows nothing of the payload. Printed: trunk mass and centre beside the truth,
coverage of 95 % intervals, seconds.
"""

import argparse
import os
import tempfile
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import mujoco
import numpy as np
from scipy.signal import firwin

import diffnea as dn

STEP = 0.002
LEGS = ("FL", "FR", "RL", "RR")
STAND = np.array([0.0, 0.9, -1.8] * 4)
NOISE = {"q": 1e-4, "u": 0.05, "accelerometer": 0.02, "gyroscope": 0.002}
PAYLOAD_AT = np.array([0.08, 0.02, 0.09])
HARD, SOFTER = ((1e-4, 1.0), 0.9999), ((STEP, 1.0), 0.99)  # time constant and damping of dry friction, its impedance
FINE = 4  # simulation steps a sample
TAPS, CUT = 601, 0.96  # of the sensor's low-pass, without delay: its length in steps, its corner in Nyquist frequencies
LANDED = 500  # samples: a robot that trots lands first
FEET = {leg: dn.Foot(f"{leg}_calf", (-0.002, 0.0, -0.213), 0.022) for leg in LEGS}


@dataclass
class Log:
    """What is recorded."""

    q: list
    u: list
    accelerometer: list
    gyroscope: list
    contacts: list
    quaternion: list


def model_of(path: Path, payload: float, ground: bool) -> mujoco.MjModel:
    """The robot without meshes, with a point mass on its trunk, over a plane or nothing."""
    spec = mujoco.MjSpec.from_string(without_meshes(path.read_text()))
    trunk = spec.body("base")
    if payload:
        extra = trunk.add_body(name="payload", pos=PAYLOAD_AT)
        extra.explicitinertial = True
        extra.mass, extra.ipos, extra.inertia = payload, np.zeros(3), payload * np.full(3, 1e-3)
    if ground:
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 0.05])
    found = spec.compile()
    found.opt.timestep = STEP / FINE
    # MuJoCo's dry friction yields to accelerations within its time constant; this one is as hard as the step allows.
    found.dof_solref[:], found.dof_solimp[:, :2] = HARD
    found.geom_condim[:] = np.minimum(found.geom_condim, 3)  # feet that push at a point, and do not twist
    # Steps that are implicit in the damping move as if rotors were heavier by step · damping / 2, a twentieth here.
    found.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    return found


def without_meshes(text: str) -> str:
    """Visual geoms and the meshes themselves are of no use here."""
    lines = [
        line
        for line in text.splitlines()
        if "<mesh " not in line and 'class="visual"' not in line or "<default" in line
    ]
    return "\n".join(line for line in lines if 'mesh="' not in line).replace('meshdir="assets"', "")


def trot(t: float, rng_phase: np.ndarray) -> np.ndarray:
    """Joint angles of a trot on the spot that leans and turns a little; feet rise no higher than knees can bend."""
    wanted = STAND.copy()
    for k in range(4):
        phase = 2 * np.pi * 1.8 * t + (np.pi if k in (1, 2) else 0.0)
        lift = max(0.0, np.sin(phase))
        wanted[3 * k : 3 * k + 3] += [0.0, 0.25 * lift, -0.5 * lift]
        swing = 0.12 * np.cos(phase) * np.sin(2 * np.pi * 0.13 * t + rng_phase[0])
        wanted[3 * k + 1] += swing
    sway = 0.12 * np.sin(2 * np.pi * np.array([0.31, 0.47, 0.23]) * t + rng_phase[:3])
    wanted[0::3] += sway[0]
    wanted[1::3] += sway[1] * np.array([1, 1, -1, -1])
    wanted[2::3] += sway[2] * np.array([1, -1, 1, -1])
    return wanted


def upright(wanted: np.ndarray, quaternion: np.ndarray) -> np.ndarray:
    """Legs on the lower side longer, so that the trunk stays level and nothing but feet touches the ground."""
    w, x, y, z = quaternion
    roll, pitch = np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)), np.arcsin(2 * (w * y - z * x))
    longer = pitch * np.array([1, 1, -1, -1]) - roll * np.array([1, -1, 1, -1])
    wanted[1::3] -= longer
    wanted[2::3] += 2 * longer
    return wanted


def waving(t: float, phase: np.ndarray, speed: np.ndarray) -> np.ndarray:
    """Joint angles of legs that wave in the air."""
    return STAND + 0.3 * np.sin(speed * t + phase).sum(axis=1) / 1.5


def simulate(model: mujoco.MjModel, seconds: float, seed: int, ground: bool) -> Log:
    rng, data = np.random.default_rng(seed), mujoco.MjData(model)
    phase, speed = rng.uniform(0, 6, (12, 3)), rng.uniform(3, 12, (12, 3))
    data.qpos[:7] = [0, 0, 0.31 if ground else 2.0, 1, 0, 0, 0]
    data.qpos[7:19] = STAND
    if not ground:
        data.qvel[3:6] = rng.normal(size=3)
    log, sensed = Log([], [], [], [], [], []), []
    imu = model.site("imu").id
    feet, floor = [model.geom(leg).id for leg in LEGS], int(np.flatnonzero(model.geom_bodyid == 0)[0]) if ground else -1
    for k in range(int(seconds / STEP)):
        t = k * STEP
        wanted = upright(trot(t, phase[0]), data.qpos[3:7]) if ground else waving(t, phase, speed)
        gains = (120.0, 3.0) if ground else (40.0, 1.0)
        torque = np.clip(gains[0] * (wanted - data.qpos[7:19]) - gains[1] * data.qvel[6:18], -23, 23)
        mujoco.mj_forward(model, data)
        before = proper(model, data, imu)
        order = [model.actuator(f"{leg}_{joint}").id for leg in LEGS for joint in ("hip", "thigh", "calf")]
        data.ctrl[order] = torque
        mujoco.mj_forward(model, data)
        sensed.append(np.append((before + proper(model, data, imu)) / 2, data.qvel[3:6]))
        touching = {c.geom1 for c in data.contact[: data.ncon]} | {c.geom2 for c in data.contact[: data.ncon]}
        if not touching <= {*feet, floor}:
            raise SystemExit(f"quadruped: at {t:.2f} s something else than feet touches the ground")
        rows = {"q": data.qpos[7:19], "u": torque, "quaternion": data.qpos[3:7]}
        rows["contacts"] = np.array([foot in touching for foot in feet])
        for signal, row in rows.items():
            getattr(log, signal).append(np.array(row, float))
        for step in range(FINE):
            mujoco.mj_step(model, data)
            if step < FINE - 1:
                mujoco.mj_forward(model, data)
                sensed.append(np.append(proper(model, data, imu), data.qvel[3:6]))
    sampled = low_passed(np.array(sensed))
    log.accelerometer, log.gyroscope = list(sampled[:, :3]), list(sampled[:, 3:])
    return log


def low_passed(sensed: np.ndarray) -> np.ndarray:
    """Every so many samples of what was sensed at each step, through the sensor's low-pass."""
    taps = firwin(TAPS, CUT / FINE, window=("kaiser", 10.0))
    padded = np.pad(sensed, ((TAPS // 2, TAPS // 2), (0, 0)), mode="edge")
    return np.stack([np.convolve(column, taps, "valid") for column in padded.T], axis=1)[::FINE]


def proper(model: mujoco.MjModel, data: mujoco.MjData, site: int) -> np.ndarray:
    """Acceleration less gravity at the sensor, in its axes."""
    found = np.zeros(6)
    mujoco.mj_rnePostConstraint(model, data)
    mujoco.mj_objectAcceleration(model, data, mujoco.mjtObj.mjOBJ_SITE, site, found, 1)
    return found[3:]


def recording(log: Log, robot: dn.Robot, site: np.ndarray, seed: int, name: str, ground: bool) -> dn.Recording:
    rng = np.random.default_rng(seed)
    noisy = {key: np.array(getattr(log, key)) for key in NOISE}
    noisy = {key: values + NOISE[key] * rng.normal(size=values.shape) for key, values in noisy.items()}
    touch = {"contacts": np.array(log.contacts), "contact_names": LEGS} if ground else {}
    attitude = {"position": np.zeros((len(log.q), 3)), "quaternion": np.array(log.quaternion)} if ground else {}
    base = dn.BaseMotion(
        accelerometer=noisy["accelerometer"], gyroscope=noisy["gyroscope"], imu_position=site, **touch, **attitude
    )
    stamps = STEP * np.arange(len(log.q))
    return dn.Recording(stamps, noisy["q"], noisy["u"], joint_names=robot.joint_names, base=base, name=name)


def main() -> None:
    found = argparse.ArgumentParser(description="A simulated quadruped: its trunk and a payload, found from torques")
    found.add_argument("robot", nargs="?", help="go2.xml; by default unitree_go2/go2.xml in DIFFNEA_ROBOTS")
    found.add_argument("--seconds", type=float, default=20.0)
    found.add_argument("--repeats", type=int, default=1)
    found.add_argument("--payload", type=float, default=1.5)
    found.add_argument("--only", choices=("air", "ground"))
    given = found.parse_args()
    folder = os.environ.get("DIFFNEA_ROBOTS", "")
    path = Path(given.robot) if given.robot else Path(folder) / "unitree_go2" / "go2.xml"
    if not path.is_file():
        raise SystemExit("quadruped: give the path of go2.xml, or set DIFFNEA_ROBOTS to the folder of unitree_go2")
    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    for ground in (False, True):
        if given.only in (None, "ground" if ground else "air"):
            for seed in range(given.repeats):
                print(row(path, given.payload, given.seconds, seed, ground), flush=True)


def row(path: Path, payload: float, seconds: float, seed: int, ground: bool) -> str:
    model = model_of(path, payload, ground)
    log = simulate(model, seconds, seed, ground)
    file = dn.load_robot(plain(path))
    true = carrying(file, payload)
    data = recording(log, file, model.site("imu").pos, seed, "ground" if ground else "air", ground)
    data = data[LANDED:] if ground else data
    began = time.perf_counter()
    fit = dn.fit(file, data, feet=FEET if ground else None)
    seconds = time.perf_counter() - began
    return f"{'ground' if ground else 'air'} {seed}: " + told(fit, true, payload) + f"; {seconds:.0f} s"


def plain(path: Path) -> Path:
    """The robot as a file without meshes."""
    out = Path(tempfile.mkdtemp()) / "go2.xml"
    out.write_text(without_meshes(path.read_text()))
    return out


def carrying(robot: dn.Robot, payload: float) -> dn.Robot:
    """The robot with the payload on its trunk."""
    if not payload:
        return robot
    more = dn.Inertia.from_com(payload, PAYLOAD_AT, payload * 1e-3 * np.eye(3))
    both = jax.tree.map(lambda rows, new: rows.at[0].add(new), robot.inertia, more)
    return replace(robot, inertia=both)


def told(fit: dn.Fit, true: dn.Robot, payload: float) -> str:
    ours, theirs = (robot.inertia for robot in (fit.robot, true))
    mass, truth = float(ours.mass[0]), float(theirs.mass[0])
    centre = [np.asarray(each.first_moment[0]) / float(each.mass[0]) for each in (ours, theirs)]
    known = [each for each in fit.identifiable if each.kind != "actuator" and np.isfinite(each.std)]
    assert isinstance(fit.model, dn.Model)
    witness = dn.Model(true, fit.model.actuator)
    inside = np.mean([each.lower <= each.of(witness) <= each.upper for each in known])
    off = 1e3 * np.linalg.norm(centre[0] - centre[1])
    return (
        f"{fit.verdict}, {fit.config['actuator']}, trunk {mass:.3f} kg for {truth:.3f} ({mass / truth - 1:+.2%}), "
        f"centre off {off:.2f} mm, {inside:.1%} of {len(known)} intervals hold the truth"
    )


if __name__ == "__main__":
    main()
