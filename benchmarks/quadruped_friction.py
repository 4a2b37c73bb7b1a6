"""What dry friction of the simulator does to intervals: a trotting Go2 with it, and without in simulation and file.

    python benchmarks/quadruped_friction.py PATH/unitree_go2/go2.xml [--seed 1] [--seconds 20] [--payload 1.5]

As `quadruped.py --only ground`. MuJoCo's dry friction is a soft constraint: near standstill it yields to accelerations,
as a rotor would, and the armatures that are found differ from the file's by more than their intervals.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path

import jax
import tyro
from quadruped import FEET, LANDED, carrying, model_of, plain, recording, simulate, told
from tyro.conf import Positional

import diffnea as dn


@dataclass(frozen=True)
class Options:
    """What to simulate."""

    robot: Positional[Path]
    seed: int = 1
    seconds: float = 20.0
    payload: float = 1.5


def row(options: Options, dry: bool) -> str:
    """One trot."""
    model, path = model_of(options.robot, options.payload, True), plain(options.robot)
    if not dry:
        model.dof_frictionloss[:] = 0
        path.write_text(path.read_text().replace('frictionloss="0.2"', 'frictionloss="0"'))
    file = dn.load_robot(path)
    log = simulate(model, options.seconds, options.seed, True)
    data = recording(log, file, model.site("imu").pos, options.seed, "ground", True)[LANDED:]
    fit = dn.fit(file, data, feet=FEET)
    return f"{'with' if dry else 'without'} dry friction: {told(fit, carrying(file, options.payload), options.payload)}"


def main() -> None:
    """Print both rows."""
    options = tyro.cli(Options)
    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    for dry in (True, False):
        print(row(options, dry), flush=True)


if __name__ == "__main__":
    main()
