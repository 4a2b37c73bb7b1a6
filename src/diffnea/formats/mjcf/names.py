"""Names of bodies, joints, tendons and actuators that are readable and differ."""

from collections.abc import Container
from itertools import count
from typing import Any

from diffnea.formats.mjcf.compiler import mujoco


class Names:
    """Names that are readable and differ, also where the file gives none."""

    def __init__(self, model: Any):
        mj = mujoco()

        def given(kind: str, count: int) -> list[str]:
            return [mj.mj_id2name(model, getattr(mj.mjtObj, kind), i) or "" for i in range(count)]

        self.bodies = _distinct(given("mjOBJ_BODY", model.nbody), [f"body_{i}" for i in range(model.nbody)])
        owners = [self.bodies[i] for i in model.jnt_bodyid]
        self.joints = _distinct(given("mjOBJ_JOINT", model.njnt), [f"{owner}_joint" for owner in owners])
        self.tendons = _distinct(given("mjOBJ_TENDON", model.ntendon), ["tendon"] * model.ntendon)
        number = len(model.actuator_trntype)
        self.actuators = _distinct(given("mjOBJ_ACTUATOR", number), [f"actuator_{i}" for i in range(number)])


def _distinct(given: list[str], otherwise: list[str]) -> list[str]:
    taken, names = set(given), []
    for name, substitute in zip(given, otherwise, strict=True):
        names.append(name or distinct(substitute, taken))
        taken.add(names[-1])
    return names


def distinct(name: str, taken: Container[str]) -> str:
    """The name, with a number behind it if it is taken."""
    numbered = (f"{name}_{i}" for i in count(2))
    return name if name not in taken else next(other for other in numbered if other not in taken)
