"""What a simulator's dry friction does to intervals: a trotting Go2 with friction that yields, is hard, and none.

    python benchmarks/quadruped_friction.py PATH/unitree_go2/go2.xml [--seed 1] [--seconds 20] [--payload 1.5]

As `quadruped.py --only ground`. MuJoCo's dry friction is a soft constraint: near standstill it yields to accelerations,
as a rotor would. "Softer" has a time constant of four steps and an impedance of 0.99, "hard" the shortest that the step
allows and 0.9999. Printed: a row for each, and which kinds of combinations miss the truth.
"""

import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import tyro
from quadruped import FEET, HARD, LANDED, SOFTER, carrying, model_of, plain, recording, simulate, told
from tyro.conf import Positional

import diffnea as dn

FRICTIONS = {"softer": SOFTER, "hard": HARD, "none": None}


@dataclass(frozen=True)
class Options:
    """What to simulate."""

    robot: Positional[Path]
    seed: int = 1
    seconds: float = 20.0
    payload: float = 1.5


def row(options: Options, friction: str) -> str:
    """One trot."""
    model, path, law = model_of(options.robot, options.payload, True), plain(options.robot), FRICTIONS[friction]
    if law is None:
        model.dof_frictionloss[:] = 0
        path.write_text(path.read_text().replace('frictionloss="0.2"', 'frictionloss="0"'))
    else:
        model.dof_solref[:], model.dof_solimp[:, :2] = law
    file = dn.load_robot(path)
    log = simulate(model, options.seconds, options.seed, True)
    data = recording(log, file, model.site("imu").pos, options.seed, "ground", True)[LANDED:]
    fit = dn.fit(file, data, feet=FEET)
    true = carrying(file, options.payload)
    return f"dry friction {friction}: {told(fit, true, options.payload)}; {kinds(fit, true)}"


def kinds(fit: dn.Fit, true: dn.Robot) -> str:
    """How many combinations of each kind have the truth outside their intervals."""
    assert isinstance(fit.model, dn.Model)
    witness = dn.Model(true, fit.model.actuator)
    known = [each for each in fit.identifiable if each.kind != "actuator" and np.isfinite(each.std)]
    missed = Counter(each.kind for each in known if not each.lower <= each.of(witness) <= each.upper)
    return "missed: " + ", ".join(f"{kind} {missed[kind]} of {n}" for kind, n in Counter(e.kind for e in known).items())


def main() -> None:
    """Print the three rows."""
    options = tyro.cli(Options)
    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    for friction in FRICTIONS:
        print(row(options, friction), flush=True)


if __name__ == "__main__":
    main()
