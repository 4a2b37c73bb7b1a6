"""Couplings of a file: joints that follow others, by the links they move; refuses what makes no sense."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from diffnea.formats.description import Coupling, Description, Joint, RobotFileError, Tendon
from diffnea.robot import JOINT_KINDS, Robot
from diffnea.text import meant
from diffnea.ties import Couplings, Tendons


def couplings_of(description: Description, joints: tuple[Joint, ...]) -> Couplings | None:
    """Couplings by link, each with a leader that follows none; refuses what makes no sense."""
    if not description.couplings:
        return None
    places = {joint.name: i for i, joint in enumerate(joints)}
    found = {coupling.follower: coupling for coupling in description.couplings}
    for coupling in description.couplings:
        _check_coupling(coupling, description, joints)
        if found[coupling.follower] is not coupling:
            raise RobotFileError(f'joint "{coupling.follower}" follows two others; let it follow one')
    led = [_composed(coupling, found) for coupling in description.couplings]
    degrees = max(len(coupling.coefficients) for coupling in led)
    rows = [(*coupling.coefficients, *[0.0] * (degrees - len(coupling.coefficients))) for coupling in led]
    followers, leaders = ([places[getattr(c, end)] for c in led] for end in ("follower", "leader"))
    return Couplings(tuple(followers), tuple(leaders), jnp.asarray(rows, float))


def _check_coupling(coupling: Coupling, description: Description, joints: tuple[Joint, ...]) -> None:
    kinds = {joint.name: joint.kind for joint in description.joints}
    for end in (coupling.follower, coupling.leader):
        if end not in kinds:
            told = f'no joint "{end}"{meant(end, kinds)}'
            raise RobotFileError(f'joint "{coupling.follower}" is coupled to "{coupling.leader}": {told}')
        if kinds[end] not in JOINT_KINDS:
            what = f'joint "{coupling.follower}" is coupled to "{coupling.leader}", but "{end}" is {kinds[end]}'
            raise RobotFileError(f"{what}; couple revolute, continuous and prismatic joints")
    if coupling.follower == coupling.leader:
        raise RobotFileError(f'joint "{coupling.follower}" is coupled to itself; let it follow another')


def _composed(coupling: Coupling, found: dict[str, Coupling]) -> Coupling:
    """The coupling with the first leader of a chain of straight lines."""
    seen = {coupling.follower}
    while coupling.leader in found:
        above = found[coupling.leader]
        if above.follower in seen:
            raise RobotFileError(
                f'the couplings of joint "{coupling.follower}" go round in a circle; let one joint lead'
            )
        if not above.straight:
            raise RobotFileError(
                f'joint "{coupling.follower}" follows "{above.follower}", which follows another by a curve; '
                "let it follow a joint that leads"
            )
        seen.add(above.follower)
        line = np.polynomial.Polynomial(above.coefficients[:2])
        through = np.polynomial.Polynomial(coupling.coefficients)(line)
        coupling = Coupling(coupling.follower, above.leader, tuple(np.atleast_1d(through.coef).tolist()))
    return coupling


def tendons_of(description: Description, joints: tuple[Joint, ...]) -> Tendons | None:
    """Tendons by link."""
    found = description.tendons
    if not found:
        return None
    weights = np.zeros((len(found), len(joints)))
    places = {joint.name: i for i, joint in enumerate(joints)}
    for row, tendon in zip(weights, found, strict=True):
        if tendon.stiffness < 0:
            raise RobotFileError(f'tendon "{tendon.name}" has a stiffness of {tendon.stiffness:g}; it is at least 0')
        for name, weight in tendon.weights:
            if name not in places:
                raise RobotFileError(f'tendon "{tendon.name}" goes along "{name}", which is no joint that moves')
            row[places[name]] += weight
    numbers = ([getattr(tendon, key) for tendon in found] for key in ("stiffness", "lower", "upper"))
    return Tendons(jnp.asarray(weights), *(jnp.asarray(column, float) for column in numbers))


def named_tendons(robot: Robot) -> tuple[Tendon, ...]:
    """A robot's tendons by the names of its joints."""
    if robot.tendons is None:
        return ()
    rows = zip(*(np.asarray(x, float).tolist() for x in jax.tree.leaves(robot.tendons)), strict=True)
    found = []
    for i, (weights, *numbers) in enumerate(rows):
        along = [(name, weight) for name, weight in zip(robot.tree.joint_names, weights, strict=True) if weight]
        found.append(Tendon(f"tendon_{i}", tuple(along), *numbers))
    return tuple(found)


def uncouple(description: Description) -> Description:
    """The description with all joints independent and loops open, and a word on those that follow others."""
    named = ", ".join(f'"{coupling.follower}"' for coupling in description.couplings)
    notes = [f"joints that follow others are treated as independent: {named}"] if named else []
    if description.loops:
        notes.append(f"loops are left open: {', '.join(loop.words for loop in description.loops)}")
    return replace(description, couplings=(), loops=(), notes=(*description.notes, *notes))


def named_couplings(robot: Robot) -> tuple[Coupling, ...]:
    """A robot's couplings by the names of its joints."""
    tied, names = robot.couplings, robot.tree.joint_names
    if tied is None:
        return ()
    rows = zip(tied.followers, tied.leaders, np.asarray(tied.coefficients, float).tolist(), strict=True)
    return tuple(Coupling(names[follower], names[leader], tuple(row)) for follower, leader, row in rows)
