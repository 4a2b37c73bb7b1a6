"""Beside `mujoco.sysid`: the same simulated cartpole data, the same 22 numbers, one run.

    pip install 'mujoco[sysid]==3.13.0'         full inertias are broken in 3.14 to 4.0
    python benchmarks/sysid.py [--seconds 12] [--seeds 3]

A swing-up, positions read by encoders. Both learn ten inertial numbers of each link and two frictions, from a start
that is 20 % off in every inertial number and 50 % in friction. `mujoco.sysid` compares roll-outs of half a second with
the positions, from states smoothed as `dn.fit` does it. Both are timed when compiled; with `dn.fit` its analysis and
verdict count.
"""

import argparse
import contextlib
import io
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

import mujoco  # noqa: E402
from fit import actuator, observables  # noqa: E402
from mujoco import sysid  # noqa: E402

import diffnea as dn  # noqa: E402
from diffnea.systems import varied  # noqa: E402


def swing(system, seconds, seed):
    """One swing-up, as the encoders read it."""
    model, rng = dn.Model(system.robot, actuator(system, "viscous")), np.random.default_rng(seed)
    law = varied(system.swing_up, jax.random.key(seed), 0.1)
    start = jnp.asarray(0.05 * rng.normal(size=2))
    run = dn.rollout(model, start, jnp.zeros(2), law, system.dt, steps=round(seconds / system.dt))
    step = np.asarray(system.sensors.encoder_step)
    q = np.round((np.asarray(run.q) + step / 2 * rng.normal(size=run.q.shape)) / step) * step
    return dn.Recording(time=np.asarray(run.time), q=q, u=np.asarray(run.u), joint_names=system.robot.joint_names)


def ours(start, recording, seed):
    """`dn.fit`, its analysis and its verdict."""
    begun = time.perf_counter()
    found = dn.fit(start, recording, actuator="viscous", seed=seed)
    finite = sum(bool(np.isfinite(each.std)) for each in found.identifiable)
    seconds = time.perf_counter() - begun
    said = f"{finite} of {len(found.identifiable)} determined combinations have finite intervals"
    return seconds, found.robot, np.asarray(found.model.actuator.viscous), said


def specification(robot, dt):
    """The robot as MuJoCo has it, with sensors of both positions."""
    with tempfile.TemporaryDirectory() as folder:
        dn.save_robot(robot, Path(folder) / "robot.xml")
        spec = mujoco.MjSpec.from_file(str(Path(folder) / "robot.xml"))
    spec.option.timestep, spec.option.integrator = dt, mujoco.mjtIntegrator.mjINT_RK4
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT
    for each in spec.actuators:
        each.ctrllimited, each.forcelimited = mujoco.mjtLimited.mjLIMITED_FALSE, mujoco.mjtLimited.mjLIMITED_FALSE
    for name in robot.joint_names:
        kind, target = mujoco.mjtSensor.mjSENS_JOINTPOS, mujoco.mjtObj.mjOBJ_JOINT
        spec.add_sensor(name=f"{name} position", type=kind, objtype=target, objname=name)
    return spec


def learned_numbers(spec, model, robot):
    """Full inertias of all links, and the joints' damping."""
    numbers = sysid.ParameterDict()
    for link in robot.link_names:
        numbers.add(sysid.body_inertia_param(spec, model, link, sysid.InertiaType.Pseudo))
    for joint, damping in zip(robot.joint_names, np.asarray(robot.damping), strict=True):

        def modify(spec, parameter, joint=joint):
            spec.joint(joint).damping = _like(spec.joint(joint).damping, parameter.value[0])

        bounds = 1e-3 * damping, 10 * damping
        numbers.add(sysid.Parameter(f"{joint} damping", damping, *bounds, modifier=modify))
    return numbers


def _like(old, value):
    """A damping is a number in some versions of MuJoCo, and three in others."""
    return value if np.ndim(old) == 0 else np.array([value, *np.asarray(old)[1:]])


def sequences(spec, model, recording, window):
    """The recording in windows, each from its smoothed state."""
    smoothed = dn.recordings.smooth(recording)
    read, q, qd = smoothed.recording, smoothed.q, np.asarray(smoothed.recording.qd)
    steps, starts, controls, sensors, names = round(window / recording.dt), [], [], [], []
    steps = min(steps, len(q) - 1)
    for k in range(0, len(q) - steps, steps):
        clock = recording.dt * np.arange(steps + 1)
        starts.append(sysid.create_initial_state(model, q[k], qd[k]))
        controls.append(sysid.TimeSeries(clock, read.u[k : k + steps + 1, : model.nu]))
        sensors.append(sysid.TimeSeries.from_names(clock, read.q[k : k + steps + 1], model))
        names.append(f"window {k}")
    return sysid.ModelSequences("cartpole", spec, names, starts, controls, sensors)


def theirs(start, recording, window):
    """`mujoco.sysid` with its defaults, and its intervals."""
    spec = specification(start, recording.dt)
    model = spec.compile()
    numbers, data = learned_numbers(spec, model, start), sequences(spec, model, recording, window)
    begun = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        wrong = sysid.build_residual_fn(models_sequences=[data])
        best, result = sysid.optimize(numbers, wrong, verbose=False)
        left, _, _ = wrong(best.as_vector(), best.copy())
        _, widths = sysid.calculate_intervals(left, np.asarray(result.jac))
    seconds = time.perf_counter() - begun
    changed = sysid.apply_param_modifiers_spec(best, spec.copy())
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "robot.xml").write_text((changed or spec).to_xml())
        robot = dn.load_robot(Path(folder) / "robot.xml")
    said = f"{int(np.isfinite(widths).sum())} of {len(widths)} numbers have finite intervals"
    return seconds, robot, np.asarray(robot.damping), said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--window", type=float, default=0.5)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    system = dn.systems.cartpole()
    start = replace(system.robot, inertia=jax.tree.map(lambda x: 0.8 * x, system.robot.inertia))
    start = replace(start, damping=0.5 * system.robot.damping)
    ours(start, swing(system, options.seconds, 0), 0)  # compiles
    print(f"cartpole, {options.seconds:g} s of positions, 22 numbers; MuJoCo {mujoco.__version__}")
    for seed in range(options.seeds):
        recording = swing(system, options.seconds, seed)
        both = {"dn.fit": ours(start, recording, seed), "mujoco.sysid": theirs(start, recording, options.window)}
        for name, (seconds, robot, friction, said) in both.items():
            found, true = observables(robot), observables(system.robot)
            off = np.max(np.abs(found - true), axis=1) / np.max(np.abs(true), axis=1)
            wrong = np.max(np.abs(friction / np.asarray(system.robot.damping) - 1))
            print(
                f"{name:13} {seconds:6.2f} s; mass matrix and gravity off by {np.max(off):.3%}, friction {wrong:.3%}; "
                f"{said}",
                flush=True,
            )
        print(f"{'':13} {both['mujoco.sysid'][0] / both['dn.fit'][0]:6.1f} times faster", flush=True)


if __name__ == "__main__":
    main()
