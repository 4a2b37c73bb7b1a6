"""A real-size arm: Franka's Panda from URDF, 20 s of excitation at 250 Hz, friction and noise, a start 30 % off.

python benchmarks/fit_arm.py [--loss torque] [--seed 0]
"""

import argparse
import tempfile
import time
import xml.etree.ElementTree as ET
from importlib.metadata import files
from pathlib import Path

begun = time.perf_counter()
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

jax.config.update("jax_enable_x64", True)

from diffnea import load_robot  # noqa: E402
from diffnea.actuators import Stribeck  # noqa: E402
from diffnea.batches import inverse_dynamics  # noqa: E402
from diffnea.identify import fit  # noqa: E402
from diffnea.models import Model  # noqa: E402
from diffnea.parameters import decode, encode, learnable, pack, unpack  # noqa: E402
from diffnea.recordings import Recording  # noqa: E402

RATE, SECONDS, HARMONICS = 250, 20.0, 5
TORQUE_NOISE, POSITION_NOISE = 0.1, 1e-5


def panda():
    """The arm with its fingers fixed: seven joints."""
    (path,) = (file.locate() for file in files("example-robot-data") or () if file.name == "panda.urdf")
    root = ET.parse(str(path)).getroot()
    for element in root.iter("joint"):
        if element.get("name", "").startswith("panda_finger"):
            element.set("type", "fixed")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "panda.urdf"
        place.write_text(ET.tostring(root, encoding="unicode"))
        return load_robot(place)


def excitation(robot, seed, later=0.0):
    """Smooth periodic motion within the limits, exact: time, q, q̇ and q̈, so many samples later."""
    rng = np.random.default_rng(seed)
    n, t = robot.num_joints, np.arange(0, SECONDS, 1 / RATE) + later / RATE
    lower, upper = np.asarray(robot.limits.lower), np.asarray(robot.limits.upper)
    middle, reach = (lower + upper) / 2, (upper - lower) / 2
    k = 2 * np.pi * 0.1 * np.arange(1, HARMONICS + 1)
    a, b = rng.standard_normal((2, HARMONICS, n)) / np.arange(1, HARMONICS + 1)[None, :, None] ** 0.5
    size = 0.95 * reach / (np.abs(a) + np.abs(b)).sum(0)  # never beyond the limits
    s, c = np.sin(np.outer(t, k)), np.cos(np.outer(t, k))
    q = middle + size * (s @ a + c @ b)
    qd = size * ((c * k) @ a - (s * k) @ b)
    qdd = size * (-(s * k**2) @ a - (c * k**2) @ b)
    return t, q, qd, qdd


def torque(robot, actuator, q, qd, qdd):
    """What the motors have to give: the motion, and friction."""
    lost = jax.vmap(lambda q, qd: actuator(jnp.zeros_like(q), q, qd))(jnp.asarray(q), jnp.asarray(qd))
    return np.asarray(inverse_dynamics(robot, q, qd, qdd)) - np.asarray(lost)


def off(robot, share, seed):
    """The arm with every inertial number off by so much."""
    virtual = encode(robot, nearest=True)
    masks = learnable(virtual, ("inertia",))
    scale = np.tile([0.5] + [1.0] * 3 + [float(virtual.length_scale)] * 6, robot.num_joints)
    noise = np.random.default_rng(seed).standard_normal(len(scale)) * share * scale
    return decode(unpack(virtual, masks, pack(virtual, masks) + jnp.asarray(noise)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loss", default="torque")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    robot = panda()
    n = robot.num_joints
    rng = np.random.default_rng(options.seed)
    true = Stribeck.of(rng.uniform(0.3, 1.0, n), rng.uniform(0.3, 1.0, n), rng.uniform(0.5, 2.0, n), 400.0, n)
    t, q, qd, qdd = excitation(robot, options.seed)
    middle = excitation(robot, options.seed, 0.5)[1:]  # commands are held between samples
    u = torque(robot, true, *middle) + TORQUE_NOISE * rng.standard_normal(q.shape)
    data = Recording(time=t, q=q + POSITION_NOISE * rng.standard_normal(q.shape), u=u)
    start = off(robot, 0.3, options.seed)
    print(f"{robot.name}: {n} joints, ready after {time.perf_counter() - begun:.1f} s")
    cpu, wall = time.process_time(), time.perf_counter()
    found = fit(start, data, actuator="stribeck", loss=options.loss)
    print(f"fit: {time.perf_counter() - wall:.1f} s wall, {time.process_time() - cpu:.1f} s CPU; {found.notes[-1]}")
    t, q, qd, qdd = excitation(robot, options.seed + 1)
    clean = torque(robot, true, q, qd, qdd)
    for name, model in (("start", None), ("fit", found.model)):
        arm, actuator = (start, true) if model is None else (model.robot, model.actuator)
        wrong = torque(arm, actuator, q, qd, qdd) - clean
        rms = np.sqrt(np.mean(wrong**2, axis=0))
        print(
            f"{name:6} torque on a fresh trajectory: nMSE {np.mean(np.mean(wrong**2, 0) / clean.var(0)):.2e} (noise "
            f"{np.mean(TORQUE_NOISE**2 / clean.var(0)):.2e}), worst joint off by {rms.max():.3f} N·m"
        )
    cpu, wall = time.process_time(), time.perf_counter()
    known = found.identifiable
    took = f"{time.perf_counter() - wall:.1f} s wall, {time.process_time() - cpu:.1f} s CPU"
    truth = Model(robot, true)
    away = np.array([abs(each.value - each.of(truth)) / ((each.upper - each.lower) / 2) for each in known])
    inertial = np.array([each.kind in ("inertia", "gravity") for each in known])
    print(f"{inertial.sum()} inertial combinations of {len(known)}; analysis {took}")
    print(
        f"base parameters off by at most {away[inertial].max():.2f} half-widths of their 95 % intervals; "
        f"{np.mean(away <= 1):.0%} of all {len(away)} intervals hold the truth"
    )
    print(f"verdict {found.verdict!r}")


if __name__ == "__main__":
    main()
