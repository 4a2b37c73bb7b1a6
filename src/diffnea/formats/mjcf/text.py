"""MJCF as text: elements written out."""

from xml.sax.saxutils import quoteattr

import numpy as np

from diffnea.formats.description import Joint, RobotFileError
from diffnea.formats.inertia import central_moments
from diffnea.formats.mjcf.compiler import ROUNDING_OFF, SLIVER
from diffnea.formats.xml_text import Element, format_numbers
from diffnea.manifold import quaternion_of

FRESH = "save with fresh=True to write a new file"
# MuJoCo lets joints creep for 20 ms before its dry friction holds. With this it holds as soon as a time step allows: of
# time constants below two steps MuJoCo makes two steps.
HARD_FRICTION = {"solreffriction": (1e-4, 1.0), "solimpfriction": (0.9999, 0.9999, 0.001, 0.5, 2.0)}
# A motor needs a winding: of this one MuJoCo feels 1e-16 N·m·s/rad. Releases before 4.0 take no motor constant of 0.
NO_WINDING = {"resistance": 1.0, "motorconst": 1e-8}
# LuGre's friction follows the sign of the velocity within a step. Runge-Kutta's inner stages have it without bound.
NOT_RUNGE_KUTTA = "<!-- friction that changes with speed; for integrators other than RK4 -->"
# Products of inertia below this share of the largest moment are rounding.
_SAME_AXES = 1e-15


def where(element: Element) -> str:
    """An element as an error names it."""
    name = f" name={quoteattr(element.attributes['name'])}" if "name" in element.attributes else ""
    return f"<{element.tag}{name}> (line {element.line})"


def tag(element: str, /, **values) -> str:
    """An element without children; values are text or numbers."""
    texts = {key: value if isinstance(value, str) else format_numbers(value) for key, value in values.items()}
    return f"<{element} " + " ".join(f"{key}={quoteattr(text)}" for key, text in texts.items()) + "/>"


def friction_tag(joint: Joint, name: str, **others) -> str:
    """Friction that changes with speed, beside a joint's steady one: LuGre's, of a motor without winding or command."""
    return tag(
        "dcmotor", name=name, joint=joint.name, gear=1.0, **others, **NO_WINDING, input="none", lugre=bristles(joint)
    )


def bristles(joint: Joint) -> list[float]:
    """The attribute `lugre`: stiffness, damping, and friction at speed and at rest beyond the steady one; speed.

    Damping would resist acceleration wherever friction changes. The steady friction damps the bristles well enough.
    """
    assert joint.curve is not None
    curve, steady = joint.curve, joint.steady_friction
    return [curve.stiffness, 0.0, joint.friction - steady, curve.static - steady, curve.speed]


def actuator_range(joint: Joint) -> list[float]:
    """What actuators may do to a joint: its effort, and what of its friction is an actuator's to MuJoCo."""
    bound = joint.effort + joint.varying_friction
    return widened(-bound, bound)


def widened(lower: float, upper: float) -> list[float]:
    """A range as MuJoCo takes it: with a width, be it the least there is."""
    above = np.nextafter(lower, np.inf) if lower else SLIVER
    return [lower, max(upper, above) if upper == lower else upper]


def inertial_attributes(
    link: str, inertia: np.ndarray, origin: np.ndarray, least: float, axes: np.ndarray
) -> dict[str, str]:
    """What an <inertial> says of a pseudo-inertia in a frame in which the body's origin is `origin`.

    Moments are principal ones, since MuJoCo before 4.0 turns others to theirs with an error of 1e-12, and takes none
    that break its bounds by rounding. No `quat` comes back where they are about `axes`. Mass and moments below `least`
    are raised to it.
    """
    refused = refusal(inertia)
    if refused:
        raise RobotFileError(f'link "{link}": {refused}')
    mass, centre, rotational = central_moments(inertia)
    about_axes = axes.T @ rotational @ axes
    moments, turned = np.diag(about_axes), {}
    if np.abs(about_axes - np.diag(moments)).max() > _SAME_AXES * np.abs(inertia[:3, :3]).max():
        moments, axes = np.linalg.eigh(rotational)
        turned = {"quat": format_numbers(quaternion_of(axes * np.linalg.det(axes)))}
    moments = np.maximum(moments, least)
    largest = np.argmax(moments)
    moments[largest] = min(moments[largest], np.delete(moments, largest).sum())
    placed = {"pos": format_numbers(centre - origin), **turned}
    return {**placed, "mass": format_numbers(max(mass, least)), "diaginertia": format_numbers(moments)}


def refusal(inertia: np.ndarray) -> str | None:
    """Why MuJoCo takes no body with this pseudo-inertia; it leaves no room for rounding, so there is none here."""
    mass, _, rotational = central_moments(inertia)
    a, b, c = np.linalg.eigvalsh(rotational)
    slack = ROUNDING_OFF * np.abs(inertia[:3, :3]).max()
    if mass >= 0 and a >= -slack and a + b - c >= -slack:
        return None
    found = f"MuJoCo takes no body with mass {mass:g} and principal moments {a:.6g}, {b:.6g}, {c:.6g}"
    return f"{found}; mass and moments must be at least 0, and no moment above the sum of the other two"
