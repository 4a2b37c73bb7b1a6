"""The real recordings that play the paper's third data set, and the motors of these machines by their data sheets."""

from diffnea.actuators import AbstractActuator, Combined, Motor
from diffnea.recordings import Recording, public

FOLDERS = {"cartpole": "quanser_cartpole", "furuta": "quanser_qube"}
# Whole groups that are never fitted, by how their names begin.
KEPT_BACK = {"cartpole": ("chirp",), "furuta": ("swingup_250Hz_7s", "swingup_250Hz_10s")}
# Torque constant in N·m/A and winding in Ω; the cart's gear and pinion make N/A of it.
MOTORS = {"cartpole": (7.67e-3 * 3.71 / 6.35e-3, 2.6), "furuta": (0.042, 8.4)}


def present(system: str) -> bool:
    """Whether recordings of this system are on this machine."""
    return (public.folder() / FOLDERS[system]).is_dir()


def recordings(system: str, joint_names: tuple[str, ...]) -> tuple[list[Recording], list[Recording]]:
    """What is fitted and what is kept back: whole groups, with the joints named as in the robot."""
    train, test = [], []
    for group, found in public.load(FOLDERS[system]).items():
        part = test if group.startswith(KEPT_BACK[system]) else train
        part += [run.replace(joint_names=joint_names, name=f"{group} {run.name}") for run in found]
    if not train or not test:
        raise ValueError(f"{public.folder() / FOLDERS[system]}: some groups are missing; copy the data set again")
    return train, test


def motor(system: str) -> Motor:
    """The motor by its data sheet; only the first joint has one."""
    return Motor.of(*MOTORS[system], num_joints=2, driven=(True, False))


def motors(actuator: AbstractActuator) -> list[Motor]:
    """The motors among an actuator's parts."""
    parts = actuator.parts if isinstance(actuator, Combined) else (actuator,)
    return [part for part in parts if isinstance(part, Motor)]
