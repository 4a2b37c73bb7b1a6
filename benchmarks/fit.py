"""Fits measured: random starts, truth from noisy trajectories, time in a fresh process, verdicts on bad data.

python benchmarks/fit.py convergence [--seeds 40] [--samples 1000]     8 cases of exact samples, nMSE ≤ 1e-20
python benchmarks/fit.py noisy [--seeds 40]                            noisy trajectories, within 5 % of the best loss
python benchmarks/fit.py truth [--loss trajectory]                     observables and friction against the truth
python benchmarks/fit.py time                                          Furuta no-Kin, 8 starts, cold and from caches
python benchmarks/fit.py bad                                           noise, constants, another robot, few samples
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

from diffnea import systems  # noqa: E402
from diffnea.actuators import Viscous  # noqa: E402
from diffnea.batches import gravity_torque, mass_matrix  # noqa: E402
from diffnea.identify import fit  # noqa: E402
from diffnea.models import FeedForward, Model  # noqa: E402
from diffnea.recordings import Recording, Samples  # noqa: E402
from diffnea.simulate import rollout  # noqa: E402
from diffnea.systems import varied  # noqa: E402

SYSTEMS = {"cartpole": systems.cartpole, "furuta": systems.furuta}
LEARN = {"known kinematics": ("inertia",), "no-Kin": ("inertia", "kinematics")}
POSES = np.array([[0.0, 0.0], [0.3, 0.7], [-0.3, 2.0], [0.1, -1.2], [0.0, np.pi / 2]])


def actuator(system, name):
    """The true actuator."""
    return Viscous.of(np.asarray(system.robot.damping)) if name == "viscous" else None


def uniform(system, name, count, seed):
    """Exact samples, drawn evenly from where the system works."""
    rng = np.random.default_rng(seed)
    q = rng.uniform(np.asarray(system.limits.lower), np.asarray(system.limits.upper), (count, 2))
    qd = rng.uniform(-1, 1, (count, 2)) * np.asarray(system.limits.velocity)
    u = rng.uniform(-1, 1, (count, 2)) * np.asarray(system.limits.effort)
    return Samples(q=q, qd=qd, u=u, qdd=np.asarray(Model(system.robot, actuator(system, name))(q, qd, u)))


def swings(system, count, seconds, seed):
    """Swing-ups with viscous friction, measured as the system's encoders do: positions with noise, and the input."""
    model, found = Model(system.robot, actuator(system, "viscous")), []
    rng = np.random.default_rng(seed)
    for k in range(count):
        law = varied(system.swing_up, jax.random.key(100 * seed + k), 0.1)
        start = jnp.asarray([0.0, 0.2 + 0.1 * k])
        run = rollout(model, start, jnp.zeros(2), law, system.dt, steps=round(seconds / system.dt))
        q = np.asarray(run.q) + np.asarray(system.sensors.position_noise) * rng.standard_normal(run.q.shape)
        found.append(Recording(time=np.asarray(run.time), q=q, u=np.asarray(run.u)))
    return found


def convergence(options):
    """Exact samples from random starts: how many seeds end at rounding."""
    print(f"exact samples, random starts, auto, {options.samples} samples: seeds with nMSE ≤ 1e-20")
    for name, make in SYSTEMS.items():
        for friction in ("ideal", "viscous"):
            for kind, learn in LEARN.items():
                system, errors, begun = make(), [], time.process_time()
                for seed in range(options.seeds):
                    data = uniform(system, friction, options.samples, seed)
                    found = fit(system.robot, data, learn=learn, actuator=friction, start="random", seed=seed)
                    errors.append(found.metrics["nmse"])
                spent = (time.process_time() - begun) / options.seeds
                good = sum(error <= 1e-20 for error in errors)
                print(
                    f"{name:9} {friction:8} {kind:17} {good:3d}/{options.seeds}  median {np.median(errors):.1e}  "
                    f"worst {max(errors):.1e}  {spent:.2f} s CPU a fit",
                    flush=True,
                )


def noisy(options):
    """Noisy trajectories from random starts: how many seeds come within 5 % of the best loss."""
    print("noisy trajectories, random starts, auto: seeds within 5 % of the best loss")
    for name, make in SYSTEMS.items():
        data = swings(make(), 4, 12.0, 0)
        for kind, learn in LEARN.items():
            losses = [
                fit(make().robot, data, learn=learn, actuator="viscous", start="random", seed=seed).loss
                for seed in range(options.seeds)
            ]
            good = sum(loss <= 1.05 * min(losses) for loss in losses)
            print(
                f"{name:9} {kind:17} {good:3d}/{options.seeds}  losses {min(losses):.4g} to {max(losses):.4g}",
                flush=True,
            )


def observables(robot):
    """Entries of the mass matrix and the pole's gravity torque in a few poses."""
    q = jnp.asarray(POSES)
    M = np.asarray(mass_matrix(robot, q))
    return np.stack([M[:, 0, 0], M[:, 0, 1], M[:, 1, 1], np.asarray(gravity_torque(robot, q))[:, 1]])


def truth(options):
    """Noisy trajectories: errors of observables and friction, and accelerations beside a plain network's."""
    for name, make in SYSTEMS.items():
        system, data = make(), swings(make(), 6, 12.0, 1)
        clean = uniform(system, "viscous", 4000, 9)
        for loss in options.loss:
            found = fit(
                system.robot, data, learn=LEARN["no-Kin"], actuator="viscous", loss=loss, start="random", seed=0
            )
            ours, true = observables(found.robot), observables(system.robot)
            off = np.max(np.abs(ours - true), axis=1) / np.max(np.abs(true), axis=1)
            friction = np.asarray(found.model.actuator.viscous) / np.asarray(system.robot.damping) - 1
            print(
                f"{name:9} no-Kin viscous, {loss}: off M00 {off[0]:.2%}, M01 {off[1]:.2%}, M11 {off[2]:.2%}, gravity "
                f"{off[3]:.2%}; friction {friction[0]:+.1%}, {friction[1]:+.1%}; clean-acceleration nMSE "
                f"{nmse(found.model, clean):.2e}; {found.notes[-1]}",
                flush=True,
            )
        prepared = found_samples(data)
        network = FeedForward.for_samples(*prepared, jax.random.key(0), wraps=(False, True))
        learned = fit(network, data, seed=0)
        print(f"{name:9} plain network: clean-acceleration nMSE {nmse(learned.model, clean):.2e}", flush=True)


def found_samples(data):
    """Arrays for a network's statistics."""
    from diffnea.recordings import prepare, samples_of

    samples = samples_of(prepare(data))
    return samples.q, samples.qd, samples.u, samples.qdd


def nmse(model, clean):
    """Mean over joints of the squared error of accelerations by their variance."""
    wrong = np.asarray(model(clean.q, clean.qd, clean.u)) - clean.qdd
    return float(np.mean(np.mean(wrong**2, axis=0) / clean.qdd.var(0)))


def one_process(options):
    """In this process: time from import to verdict, then compiled."""
    system = systems.furuta()
    data = uniform(system, "viscous", 1000, 0)
    for k in range(4):
        begun, cpu = time.perf_counter(), time.process_time()
        found = fit(system.robot, data, learn=LEARN["no-Kin"], actuator="viscous", start="random", seed=k)
        what = "first" if k == 0 else "compiled"
        print(
            f"  {what:9} fit {time.perf_counter() - begun:6.2f} s wall {time.process_time() - cpu:6.2f} s CPU; "
            f"since the process began {time.process_time():6.2f} s CPU; nMSE {found.metrics['nmse']:.1e}",
            flush=True,
        )


def timing(options):
    """Fresh processes: the first without any cache on disk, the second with what the first left there."""
    for kernels in ("on", "off"):
        with tempfile.TemporaryDirectory() as folder:
            caches = {"DIFFNEA_CACHE": f"{folder}/kernels", "JAX_COMPILATION_CACHE_DIR": f"{folder}/xla"}
            caches["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
            env = {**os.environ, **caches, "DIFFNEA_KERNELS": kernels}
            for which in ("no cache", "caches of the first"):
                print(f"kernels {kernels}, {which}: Furuta no-Kin viscous, 1000 samples, 8 random starts", flush=True)
                begun = time.perf_counter()
                subprocess.run([sys.executable, __file__, "one"], env=env, check=True, timeout=900)
                print(f"  whole process {time.perf_counter() - begun:.2f} s wall", flush=True)


def bad(options):
    """Data that no fit can be made of; none may be accepted."""
    rng = np.random.default_rng(0)
    for name, make in SYSTEMS.items():
        system, other = make(), SYSTEMS["furuta" if name == "cartpole" else "cartpole"]()
        t, n = np.arange(3000) * system.dt, 3000
        drive = np.column_stack([rng.standard_normal(n), np.zeros(n)])
        slow = np.cumsum(rng.standard_normal((n, 2)), axis=0) * 0.02
        good = uniform(system, "viscous", 1000, 0)
        shuffled = Samples(q=good.q, qd=good.qd, qdd=rng.permutation(good.qdd), u=good.u)
        cases = {
            "white noise": Recording(time=t, q=rng.standard_normal((n, 2)), u=drive),
            "a random walk": Recording(time=t, q=slow, u=drive),
            "constant": Recording(time=t, q=np.full((n, 2), 0.3), u=drive),
            "shuffled samples": shuffled,
            "another robot": swings(other, 4, 12.0, 3),
            "few samples": uniform(system, "viscous", 15, 0),
        }
        for what, data in cases.items():
            for learn in LEARN.values():
                found = fit(system.robot, data, learn=learn, actuator="viscous")
                print(f"{name:9} {what:17} {found.verdict.status}: {found.verdict.reasons[0]}", flush=True)


COMMANDS = {"convergence": convergence, "noisy": noisy, "truth": truth, "time": timing, "bad": bad, "one": one_process}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--loss", nargs="+", default=["acceleration", "trajectory"])
    given = parser.parse_args()
    COMMANDS[given.command](given)
