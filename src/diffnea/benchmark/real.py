"""The real recordings that play the paper's third data set, and the motors of these machines by their data sheets."""

from collections.abc import Sequence

import numpy as np

from diffnea.actuators import AbstractActuator, Combined, Motor
from diffnea.recordings import Recording, input_delays, public

FOLDERS = {"cartpole": "quanser_cartpole", "furuta": "quanser_qube"}
# Whole groups that are never fitted, by how their names begin.
KEPT_BACK = {"cartpole": ("chirp",), "furuta": ("swingup_250Hz_7s", "swingup_250Hz_10s")}
# Torque constant in N·m/A and winding in Ω; the cart's gear and pinion make N/A of it.
MOTORS = {"cartpole": (7.67e-3 * 3.71 / 6.35e-3, 2.6), "furuta": (0.042, 8.4)}


def present(system: str) -> bool:
    """Whether recordings of this system are on this machine."""
    return (public.folder() / FOLDERS[system]).is_dir()


def recordings(system: str, joint_names: tuple[str, ...]) -> tuple[list[Recording], list[Recording]]:
    """What is fitted and what is kept back: whole groups, with the joints named as in the robot, inputs as they act."""
    train, test = [], []
    for group, found in public.load(FOLDERS[system]).items():
        part = test if group.startswith(KEPT_BACK[system]) else train
        part += [run.replace(joint_names=joint_names, name=f"{group} {run.name}") for run in found]
    if not train or not test:
        raise ValueError(f"{public.folder() / FOLDERS[system]}: some groups are missing; copy the data set again")
    late = samples_late(train)
    return [as_it_acts(run, late) for run in train], [as_it_acts(run, late) for run in test]


def samples_late(runs: Sequence[Recording]) -> int:
    """By how many samples the motion answers its command late, in the middle over recordings; 0 if they do not tell.

    No model of the paper has a delay. One that is there makes all of them wrong alike, so it is taken from the data.
    """
    found = [delay.seconds / run.dt for run in runs for delay in input_delays(run)]
    return max(0, round(float(np.median(found)))) if found else 0


def as_it_acts(run: Recording, late: int) -> Recording:
    """The recording with each input at the sample where it acts; before the first there was the first."""
    return run if late == 0 else run.replace(u=run.u[np.maximum(np.arange(len(run)) - late, 0)])


def motor(system: str) -> Motor:
    """The motor by its data sheet; only the first joint has one."""
    return Motor.of(*MOTORS[system], num_joints=2, driven=(True, False))


def motors(actuator: AbstractActuator) -> list[Motor]:
    """The motors among an actuator's parts."""
    parts = actuator.parts if isinstance(actuator, Combined) else (actuator,)
    return [part for part in parts if isinstance(part, Motor)]
