"""A payload on a trotting Go2: a trot without it is fitted, then what another trot carries beyond that fit is found.

    python benchmarks/quadruped_payload.py PATH/unitree_go2/go2.xml [--seconds 20] [--repeats 1] [--payload 1.5]

MuJoCo simulates as in `quadruped.py`. Printed: mass and centre with intervals beside the truth, seconds.
"""

import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import tyro
from quadruped import FEET, LANDED, PAYLOAD_AT, model_of, plain, recording, simulate
from tyro.conf import Positional

import diffnea as dn


@dataclass(frozen=True)
class Options:
    """What to simulate."""

    robot: Positional[Path]
    seconds: float = 20.0
    repeats: int = 1
    payload: float = 1.5


def row(options: Options, seed: int) -> str:
    """One pair of trots."""
    file, logs = dn.load_robot(plain(options.robot)), []
    for k, mass in enumerate((0.0, options.payload)):
        model = model_of(options.robot, mass, True)
        log = simulate(model, options.seconds, 100 * k + seed, True)
        whole = recording(log, file, model.site("imu").pos, 100 * k + seed, f"trot {k}", True)
        logs.append(whole[LANDED:])
    fit = dn.fit(file, logs[0], feet=FEET)
    began = time.process_time()
    found = dn.fit(fit, logs[1], learn="payload", feet=FEET)
    assert found.payload is not None
    off = 1e3 * float(np.linalg.norm(found.payload.com.value - PAYLOAD_AT))
    truth = (found.payload.mass, np.array(options.payload)), (found.payload.com, PAYLOAD_AT)
    inside = [bool(np.all((each.lower <= true) & (true <= each.upper))) for each, true in truth]
    return (
        f"{seed}: {found.verdict}, {found.payload}; for {options.payload:g} kg, centre off {off:.1f} mm; mass and "
        f"centre within their intervals: {inside}; {time.process_time() - began:.0f} CPU s"
    )


def main() -> None:
    """Print a row for each pair."""
    options = tyro.cli(Options)
    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    for seed in range(options.repeats):
        print(row(options, seed), flush=True)


if __name__ == "__main__":
    main()
