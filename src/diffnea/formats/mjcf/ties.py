"""What ties joints and bodies of an MJCF file: equality constraints and tendons; in words what is left out of them."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from diffnea.formats.description import Coupling, Loop, Tendon
from diffnea.formats.mjcf.compiler import listed, mujoco, quaternion_matrix
from diffnea.formats.mjcf.names import Names

# What else a tendon may do to joints.
_FORCES = ("tendon_damping", "tendon_frictionloss", "tendon_armature")


def couplings(model: Any, names: Names) -> tuple[Coupling, ...]:
    """Joints that follow others: by a constraint of two joints, or of a tendon along two joints."""
    found = (_coupling(model, names, i) for i in _active(model))
    return tuple(coupling for coupling in found if coupling is not None)


def tendons(model: Any, names: Names) -> tuple[Tendon, ...]:
    """Springs along sums of joints."""
    pulling = [i for i in _fixed(model) if model.tendon_stiffness[i]]
    return tuple(
        Tendon(names.tendons[i], _weights(model, names, i), float(model.tendon_stiffness[i]), *_slack(model, i))
        for i in pulling
    )


def loops(model: Any, names: Names) -> tuple[Loop, ...]:
    """Bodies that are held together, with poses in their own frames."""
    return tuple(_loop(model, names, i) for i in _active(model) if _closes(model, i))


def notes(model: Any, names: Names) -> Iterator[str]:
    """What the file has besides, in a line each."""
    tied = [i for i in _active(model) if not _closes(model, i) and _coupling(model, names, i) is None]
    if tied:
        listing = ", ".join(_tied(model, names, i) for i in tied)
        yield f"equality constraints are left out, these move independently: {listing}"
    joints = np.array(names.joints, dtype=object)
    free = (model.jnt_type == int(mujoco().mjtJoint.mjJNT_FREE)) & (model.jnt_stiffness != 0)
    if free.any():
        yield f"springs of free joints are left out: joint {listed(joints[free])}"
    curved = _polynomial(model, "jnt_stiffnesspoly", len(joints))
    if curved.any():
        yield f"only the linear part of springs is kept: joint {listed(joints[curved])}"
    curved = _polynomial(model, "dof_dampingpoly", model.nv)[model.jnt_dofadr]
    if curved.any():
        yield f"only the linear part of damping is kept: joint {listed(joints[curved])}"
    straight = set(_fixed(model))
    spatial = [i for i in range(model.ntendon) if i not in straight and _pulls(model, i)]
    if spatial:
        yield f"tendons in space are left out: {listed(names.tendons[i] for i in spatial)}"
    lossy = [i for i in straight if any(getattr(model, force)[i] for force in _FORCES)]
    if lossy:
        what = "damping, friction and armature of tendons are left out"
        yield f"{what}: {listed(names.tendons[i] for i in lossy)}"
    if model.opt.density or model.opt.viscosity:
        yield "the forces of air or water (option density, viscosity) are left out"


def _active(model: Any) -> list[int]:
    """The equality constraints that hold."""
    return np.flatnonzero(model.eq_active0).tolist()


def _polynomial(model: Any, name: str, count: int) -> np.ndarray:
    """Where there are coefficients of higher order; older releases of MuJoCo have none."""
    return np.any(getattr(model, name, np.zeros((count, 2))), axis=1)


def _coupling(model: Any, names: Names, equality: int) -> Coupling | None:
    mj, kind = mujoco(), int(model.eq_type[equality])
    if kind == int(mj.mjtEq.mjEQ_JOINT) and int(model.eq_obj2id[equality]) >= 0:
        return _by_joints(model, names, equality)
    if kind == int(mj.mjtEq.mjEQ_TENDON) and int(model.eq_obj2id[equality]) < 0:
        return _by_tendon(model, names, equality)
    return None


def _by_joints(model: Any, names: Names, equality: int) -> Coupling:
    """`q1 = r1 + Σ_j c_j (q2 − r2)^j` about the reference positions, as a polynomial in q2."""
    ends = int(model.eq_obj1id[equality]), int(model.eq_obj2id[equality])
    first, second = (float(model.qpos0[model.jnt_qposadr[end]]) for end in ends)
    line = np.polynomial.Polynomial(model.eq_data[equality, :5])(np.polynomial.Polynomial([-second, 1.0])) + first
    coefficients = np.trim_zeros(np.atleast_1d(line.coef), "b").tolist()
    padded = (*coefficients, *[0.0] * (2 - len(coefficients)))
    return Coupling(names.joints[ends[0]], names.joints[ends[1]], padded)


def _by_tendon(model: Any, names: Names, equality: int) -> Coupling | None:
    """`w1 q1 + w2 q2 = l_0 + c` of a tendon along two joints, of which the second follows."""
    tendon = int(model.eq_obj1id[equality])
    if tendon not in _fixed(model) or len(_weights(model, names, tendon)) != 2:
        return None
    (leader, first), (follower, second) = _weights(model, names, tendon)
    length = float(model.tendon_length0[tendon] + model.eq_data[equality, 0])
    return Coupling(follower, leader, (length / second, -first / second)) if second else None


def _fixed(model: Any) -> list[int]:
    """Tendons that are sums of joints, and not paths in space."""
    joint = int(mujoco().mjtWrap.mjWRAP_JOINT)
    return [i for i in range(model.ntendon) if np.all(model.wrap_type[_wraps(model, i)] == joint)]


def _wraps(model: Any, tendon: int) -> slice:
    start = int(model.tendon_adr[tendon])
    return slice(start, start + int(model.tendon_num[tendon]))


def _weights(model: Any, names: Names, tendon: int) -> tuple[tuple[str, float], ...]:
    own = _wraps(model, tendon)
    rows = zip(model.wrap_objid[own].tolist(), model.wrap_prm[own].tolist(), strict=True)
    return tuple((names.joints[joint], float(weight)) for joint, weight in rows)


def _slack(model: Any, tendon: int) -> tuple[float, float]:
    lower, upper = np.broadcast_to(model.tendon_lengthspring[tendon], 2).tolist()
    return lower, upper


def _pulls(model: Any, tendon: int) -> bool:
    return any(getattr(model, force)[tendon] for force in ("tendon_stiffness", *_FORCES))


def _closes(model: Any, equality: int) -> bool:
    """Whether an equality constraint joins two bodies."""
    mj = mujoco()
    return int(model.eq_type[equality]) in (int(mj.mjtEq.mjEQ_CONNECT), int(mj.mjtEq.mjEQ_WELD))


def _loop(model: Any, names: Names, equality: int) -> Loop:
    mj, data = mujoco(), model.eq_data[equality]
    ends = [int(model.eq_obj1id[equality]), int(model.eq_obj2id[equality])]
    connect = int(model.eq_type[equality]) == int(mj.mjtEq.mjEQ_CONNECT)
    if int(model.eq_objtype[equality]) == int(mj.mjtObj.mjOBJ_SITE):
        poses = [_pose(model.site_quat[end], model.site_pos[end]) for end in ends]
        ends = [int(model.site_bodyid[end]) for end in ends]
    elif connect:
        poses = [_pose(np.eye(4)[0], data[:3]), _pose(np.eye(4)[0], data[3:6])]
    else:  # a weld's data: the anchor in the second body, then the second body's pose in the first
        poses = [_pose(data[6:10], data[3:6]), _pose(np.eye(4)[0], data[:3])]
    first, second = (names.bodies[end] for end in ends)
    return Loop("connect" if connect else "weld", first, second, poses[0], poses[1])


def _pose(quat: np.ndarray, position: np.ndarray) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = quaternion_matrix(np.asarray(quat) / np.linalg.norm(quat)), position
    return pose


def _tied(model: Any, names: Names, equality: int) -> str:
    """Which joint or tendon an equality constraint holds."""
    on_joint = model.eq_type[equality] == mujoco().mjtEq.mjEQ_JOINT
    of, kind = (names.joints, "joint") if on_joint else (names.tendons, "tendon")
    return f'{kind} "{of[model.eq_obj1id[equality]]}"'
