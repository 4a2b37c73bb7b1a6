"""The scale of masses: torques alone leave it open where what a command is worth is learned too."""

import jax.numpy as jnp
import numpy as np

from diffnea.identify.problem.unknowns import Unknowns

# Numbers that say what torque a unit of command is.
_TORQUE_SCALES = {("Gain", "gain"), ("Motor", "raw_torque_constant"), ("Motor", "raw_resistance")}


def refuse_open_scale(free: Unknowns, loss: str) -> None:
    """A ValueError where bodies and drives that all vanish would meet the loss exactly."""
    worth = [each for each in free.parameters if (each.part, each.leaf) in _TORQUE_SCALES]
    learned = {each.owner for each in free.parameters if each.kind == "inertia"}
    if loss != "torque" or not worth or not learned:
        return
    masses = np.asarray(free.model(jnp.asarray(free.start)).robot.inertia.mass)
    if not {*np.flatnonzero(masses > 0).tolist()} <= learned:
        return  # a link whose mass is known sets the scale
    name = "gain" if any(each.part == "Gain" for each in worth) else "torque_constant"
    raise ValueError(
        f"fit: {name} learned with loss torque: masses are known up to a factor, and a robot without any would take no "
        f'torque; fix {name} (known={{"{name}": …}}, --set {name}=…) or a mass (--links), or take loss trajectory'
    )
