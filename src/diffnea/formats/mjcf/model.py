"""What MuJoCo makes of an MJCF file, as plain records: bodies, joints and motors in SI units and radians.

Defaults, classes, includes, frames and units are MuJoCo's own doing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from diffnea.formats.description import Coupling, Curve, Loop, RobotFileError, Servo, Tendon
from diffnea.formats.inertia import pseudo_inertia
from diffnea.formats.mjcf import ties
from diffnea.formats.mjcf.compiler import (
    MASSLESS,
    ROUNDING_OFF,
    SLIVER,
    Compiled,
    compile_text,
    inference,
    listed,
    mujoco,
    quaternion_matrix,
    rotation_of,
    walk,
)
from diffnea.formats.mjcf.names import Names
from diffnea.formats.mjcf.pid import read_pid
from diffnea.formats.mjcf.servos import read_servos
from diffnea.formats.xml_text import Document

WORLD = "world"
# How MuJoCo holds constraints where a file says nothing: time constant in s, damping ratio.
DEFAULT_SOLREF = (0.02, 1.0)
# A motor whose shorted winding brakes by less, in N·m·s/rad, has none.
NO_BRAKE = 1e-12


@dataclass(frozen=True)
class ModelJoint:
    """A joint: `anchor` and `axis` in its body's frame, `frame` the pose there of the <frame>s around it."""

    name: str
    kind: str  # hinge, slide, ball or free
    anchor: np.ndarray
    axis: np.ndarray
    ref: float
    limited: bool
    range: np.ndarray
    effort: float
    effort_limited: bool
    damping: np.ndarray  # per speed, speed squared, speed cubed
    friction: float
    curve: Curve | None
    servo: Servo | None
    soft: bool  # its dry friction yields as MuJoCo has it by default
    armature: float
    reflected: np.ndarray  # armature and damping that actuators add to the joint's own
    frame: np.ndarray
    stiffness: float
    rest: float  # where its spring pulls it

    @property
    def slide(self) -> bool:
        return self.kind == "slide"


@dataclass(frozen=True)
class ModelBody:
    """A body: `pose` in its parent, pseudo-inertia in its own frame with the principal `axes` that MuJoCo has it in."""

    name: str
    parent: int
    pose: np.ndarray
    inertia: np.ndarray
    axes: np.ndarray
    joints: tuple[ModelJoint, ...]
    frame: np.ndarray  # pose of the <frame>s around it, in its parent
    lift: float  # share of its weight that gravity compensation takes off

    @property
    def anchor(self) -> np.ndarray:
        """Where the frame of the body's link is, in the body's own: at its last joint."""
        return self.joints[-1].anchor if self.joints else np.zeros(3)


@dataclass(frozen=True)
class Motor:
    """A motor, the `index`-th actuator of the file: torque = gear[0] · gain · command, at most `bound`."""

    index: int
    joint: str
    gear: np.ndarray
    gain: float
    bound: float


@dataclass(frozen=True)
class Model:
    """The whole file; `bodies[0]` is the world."""

    bodies: tuple[ModelBody, ...]
    motors: tuple[Motor, ...]
    actuators: tuple[str, ...]
    frictions: dict[str, int]  # which actuator is the friction of a joint, and nothing else
    servos: dict[str, int]  # which actuator is the servo of a joint
    gravity: tuple[float, float, float]
    degrees: bool
    geoms_rule: bool  # inertiafromgeom="true" passes over <inertial> elements
    total_mass: bool  # settotalmass scales what is written
    runge_kutta: bool
    notes: tuple[str, ...]
    couplings: tuple[Coupling, ...]
    tendons: tuple[Tendon, ...]
    loops: tuple[Loop, ...]  # poses in the bodies' own frames

    def gear(self, joint: str) -> float:
        """Torque per command: over all motors of a joint, none where only others have some, 1 where there are none.

        A servo drives its joint too; as torque, its command would count once.
        """
        gears = [motor.gear[0] * motor.gain for motor in self.motors if motor.joint == joint]
        gears += [1.0] if joint in self.servos and not gears else []
        return float(sum(gears)) if self.motors or self.servos else 1.0


def load_model(
    document: Document, path: str, allow_unphysical: bool, parts: Mapping[str, bytes] | None = None
) -> Model:
    """Compile the text into records; `path` only says where included files and meshes are looked for.

    `parts` are texts of included files, by path, that are not on the disk yet.
    """
    mj = mujoco()

    compiled = compile_text(document, path, allow_unphysical, parts)
    model, names = compiled.model, Names(compiled.model)
    _refuse_infinite(model, names)
    motors = tuple(_motors(model, names))
    servos = read_servos(model, names.joints, _on_joints(model), partial(read_pid, model, compiled.spec))
    bodies = tuple(_bodies(compiled, names, motors, dict(servos.values())))
    weightless = model.opt.disableflags & mj.mjtDisableBit.mjDSBL_GRAVITY
    x, y, z = (0.0, 0.0, 0.0) if weightless else model.opt.gravity.tolist()
    return Model(
        bodies=bodies,
        motors=motors,
        actuators=tuple(names.actuators),
        frictions={names.joints[j]: i for j, i in _frictions(model).items()},
        servos={joint: i for i, (joint, _) in servos.items()},
        gravity=(x, y, z),
        degrees=bool(compiled.spec.compiler.degree),
        geoms_rule=inference(compiled.spec) == "true",
        total_mass=compiled.spec.compiler.settotalmass > 0,
        runge_kutta=bool(model.opt.integrator == mj.mjtIntegrator.mjINT_RK4),
        notes=(*_left_out(model, names, motors, servos), *ties.notes(model, names)),
        couplings=ties.couplings(model, names),
        tendons=ties.tendons(model, names),
        loops=ties.loops(model, names),
    )


def _refuse_infinite(model: Any, names: "Names") -> None:
    """Refuse what the included files may still hold; the main one is searched for it as text."""
    bodies = (model.body_pos, model.body_quat, model.body_mass, model.body_ipos, model.body_inertia)
    dofs = model.jnt_dofadr
    per_dof = (model.dof_damping, model.dof_frictionloss, model.dof_armature)
    joints = (model.jnt_pos, model.jnt_axis, model.jnt_stiffness, *(numbers[dofs] for numbers in per_dof))
    rests = np.isfinite(model.qpos_spring[model.jnt_qposadr])
    tendons = model.tendon_stiffness, model.tendon_lengthspring, _weights_finite(model)
    ties = [mujoco().mj_id2name(model, mujoco().mjtObj.mjOBJ_EQUALITY, i) or f"number {i}" for i in range(model.neq)]
    checked = (
        ("body", names.bodies, bodies),
        ("joint", names.joints, (*joints, np.where(rests, 0.0, np.inf))),
        ("tendon", names.tendons, tendons),
        ("equality constraint", ties, (model.eq_data,)),
    )
    for what, named, arrays in checked:
        for name, *numbers in zip(named, *arrays, strict=True):
            if not all(np.isfinite(number).all() for number in numbers):
                raise RobotFileError(f'{what} "{name}": a number is not finite; use finite numbers')
    for what, values in zip(("stiffness", "damping", "armature"), (joints[2], joints[3], joints[5]), strict=True):
        for name, value in zip(names.joints, values, strict=True):
            if value < 0:
                raise RobotFileError(f'joint "{name}": its {what} is {value:g}; at least 0')


def _weights_finite(model: Any) -> np.ndarray:
    """Of each tendon, what its joints or sites count: infinite where one of them is."""
    ends = zip(model.tendon_adr.tolist(), model.tendon_num.tolist(), strict=True)
    return np.array([np.sum(np.abs(model.wrap_prm[start : start + count])) for start, count in ends])


def _left_out(model: Any, names: Names, motors: tuple[Motor, ...], servos: Iterable[int]) -> Iterator[str]:
    """Actuators that are no part of a robot."""
    driven = {motor.index for motor in motors} | set(_frictions(model).values()) | set(servos)
    others = [name for index, name in enumerate(names.actuators) if index not in driven]
    if others:
        yield f"only motors and servos on joints are part of a robot; left out: actuator {listed(others)}"


def _bodies(
    compiled: Compiled, names: Names, motors: tuple[Motor, ...], servos: dict[str, Servo]
) -> Iterator[ModelBody]:
    spec, model, refused = compiled
    elements = sorted([spec.worldbody, *(body for body, _ in walk(spec.worldbody))], key=lambda body: body.id)
    for i, element in enumerate(elements):
        written = sorted(element.joints, key=lambda joint: joint.id)
        yield ModelBody(
            name=names.bodies[i],
            parent=int(model.body_parentid[i]),
            pose=pose_of(quaternion_matrix(model.body_quat[i]), model.body_pos[i]),
            inertia=refused[i] if i in refused else _inertia(model, i),
            axes=quaternion_matrix(model.body_iquat[i]),
            joints=tuple(_joint(model, joint.id, names, motors, servos, _frame(spec, joint)) for joint in written),
            frame=_frame(spec, element) if i else np.eye(4),
            lift=float(model.body_gravcomp[i]),
        )


def _inertia(model: Any, i: int) -> np.ndarray:
    mass = float(model.body_mass[i])
    if max(mass, *model.body_inertia[i]) < MASSLESS:
        return np.zeros((4, 4))
    rotation = quaternion_matrix(model.body_iquat[i])
    return pseudo_inertia(mass, model.body_ipos[i], rotation @ np.diag(model.body_inertia[i]) @ rotation.T)


def _joint(
    model: Any, j: int, names: Names, motors: tuple[Motor, ...], servos: dict[str, Servo], frame: np.ndarray
) -> ModelJoint:
    mj = mujoco()

    dof = int(model.jnt_dofadr[j])
    kind = mj.mjtJoint(int(model.jnt_type[j])).name.removeprefix("mjJNT_").lower()
    several = kind in ("free", "ball")
    within = bool(model.jnt_limited[j]) and not several  # a ball's cone is no bound on a coordinate
    limited = bool(model.jnt_actfrclimited[j])
    servo = servos.get(names.joints[j])
    bounds = [motor.bound for motor in motors if motor.joint == names.joints[j]]
    friction, curve = _friction(model, j, float(model.dof_frictionloss[dof]))
    return ModelJoint(
        name=names.joints[j],
        kind=kind,
        anchor=model.jnt_pos[j].copy(),
        axis=model.jnt_axis[j].copy(),
        ref=0.0 if several else float(model.qpos0[model.jnt_qposadr[j]]),
        limited=within,
        range=model.jnt_range[j].copy() if within else np.array([-np.inf, np.inf]),
        effort=_effort(model.jnt_actfrcrange[j], friction, curve) if limited else sum(bounds) if bounds else np.inf,
        effort_limited=limited,
        damping=np.append(model.dof_damping[dof], _optional(model, "dof_dampingpoly", model.nv, 2)[dof]),
        friction=friction,
        curve=curve,
        servo=servo,
        soft=bool(np.array_equal(model.dof_solref[dof], DEFAULT_SOLREF)),
        armature=float(model.dof_armature[dof]),
        reflected=_reflected(model, j),
        frame=frame,
        stiffness=0.0 if kind == "free" else float(model.jnt_stiffness[j]),
        rest=0.0 if several else float(model.qpos_spring[model.jnt_qposadr[j]]),
    )


def _effort(bounds: np.ndarray, friction: float, curve: Curve | None) -> float:
    """What motors may do to a joint, where friction is an actuator's too."""
    rubbing = abs(curve.static - friction) if curve else 0.0
    bound = float(np.abs(bounds).max()) - rubbing
    return bound if bound > SLIVER + ROUNDING_OFF * rubbing else 0.0


def _motors(model: Any, names: Names) -> Iterator[Motor]:
    """Actuators that put gear · gain · command on a joint, and nothing else."""
    mj = mujoco()

    delays = _optional(model, "actuator_delay", len(names.actuators))
    for i in _on_joints(model):
        fixed = model.actuator_gaintype[i] == mj.mjtGain.mjGAIN_FIXED
        direct = model.actuator_dyntype[i] == mj.mjtDyn.mjDYN_NONE and not delays[i] and model.actuator_plugin[i] < 0
        if fixed and direct and model.actuator_biastype[i] == mj.mjtBias.mjBIAS_NONE:
            gear, gain = model.actuator_gear[i].copy(), float(model.actuator_gainprm[i, 0])
            force = np.abs(model.actuator_forcerange[i]).max() if model.actuator_forcelimited[i] else np.inf
            ctrl = np.abs(model.actuator_ctrlrange[i]).max() if model.actuator_ctrllimited[i] else np.inf
            limited = np.isfinite(min(force, ctrl))  # 0 · ∞ is no bound
            bound = abs(gear[0]) * min(force, abs(gain) * ctrl if gain else 0.0) if limited else np.inf
            yield Motor(i, names.joints[model.actuator_trnid[i, 0]], gear, gain, float(bound))


def _friction(model: Any, j: int, steady: float) -> tuple[float, Curve | None]:
    """Dry friction of a joint at speed, and how it changes towards rest."""
    i = _frictions(model).get(j)
    if i is None:
        return steady, None
    moving, still, speed = model.actuator_biasprm[i, 3:6].tolist()
    return steady + moving, Curve(steady + still, speed, float(model.actuator_dynprm[i, 5]))


def _frictions(model: Any) -> dict[int, int]:
    """Joints with an actuator that is LuGre's friction without damping and nothing else, and which that is."""
    mj = mujoco()

    kind = getattr(mj.mjtBias, "mjBIAS_DCMOTOR", None)
    inputs = getattr(model, "actuator_ctrlnum", np.ones(len(model.actuator_biastype)))
    alike = [i for i in _on_joints(model) if model.actuator_biastype[i] == kind and not inputs[i]]
    found = {}
    for i in alike:
        resistance, constant = model.actuator_gainprm[i, :2]
        plain = constant**2 < NO_BRAKE * resistance and not model.actuator_biasprm[i, 0]  # no cogging
        rubs = model.actuator_actnum[i] == 1 and model.actuator_dynprm[i, 5] > 0 and not model.actuator_dynprm[i, 6]
        if plain and rubs and model.actuator_gear[i, 0] == 1:
            found.setdefault(int(model.actuator_trnid[i, 0]), []).append(i)
    return {joint: those[0] for joint, those in found.items() if len(those) == 1}


def _on_joints(model: Any) -> list[int]:
    mj = mujoco()

    kinds = [int(mj.mjtTrn.mjTRN_JOINT), int(mj.mjtTrn.mjTRN_JOINTINPARENT)]
    return np.flatnonzero(np.isin(model.actuator_trntype, kinds)).tolist()


def _reflected(model: Any, j: int) -> np.ndarray:
    """Armature and damping of the actuators of a joint, as the joint feels them through the gear."""
    fields = [_optional(model, f"actuator_{what}", len(model.actuator_trntype)) for what in ("armature", "damping")]
    mine = [i for i in _on_joints(model) if model.actuator_trnid[i, 0] == j]
    return np.array([sum(values[i] * model.actuator_gear[i, 0] ** 2 for i in mine) for values in fields], float)


def _optional(model: Any, name: str, *shape: int) -> np.ndarray:
    """An array that older releases of MuJoCo have not; zeros there."""
    return getattr(model, name, np.zeros(shape))


def _frame(spec: Any, element: Any) -> np.ndarray:
    """The pose of the <frame>s around an element in the body that they are in."""
    pose, frame = np.eye(4), element.frame
    while frame is not None:
        pose = pose_of(rotation_of(spec, frame.quat, frame.alt), frame.pos) @ pose
        frame = frame.frame
    return pose


# Poses -----------------------------------------------------------------------------------------------------------


def pose_of(rotation: np.ndarray, translation: np.ndarray) -> np.ndarray:
    """The homogeneous matrix of a rotation and a translation."""
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation, translation
    return pose


def shift(translation: np.ndarray) -> np.ndarray:
    """The pose that only moves."""
    return pose_of(np.eye(3), translation)


def motion(slide: bool, axis: np.ndarray, amount: float) -> np.ndarray:
    """What a joint does to its link's pose when it moves by an amount."""
    if slide:
        return shift(axis * amount)
    half = amount / 2
    return pose_of(quaternion_matrix(np.append(np.cos(half), np.sin(half) * axis)), np.zeros(3))
