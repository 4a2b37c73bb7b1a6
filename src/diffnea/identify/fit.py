"""`fit`: from recordings to a model, with what is known of it and a verdict on data that were not fitted."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from diffnea.actuators import AbstractActuator
from diffnea.identify.flight_fit import FlightPlan
from diffnea.identify.floating.contacts import Foot
from diffnea.identify.floating_fit import FloatingPlan
from diffnea.identify.options import Options
from diffnea.identify.payloads.arm import fit_payload
from diffnea.identify.payloads.floating import fit_floating_payload
from diffnea.identify.pipeline import Plan
from diffnea.identify.precision import double_precision, is_double
from diffnea.identify.problem.measurements.tracks import Data
from diffnea.identify.progress import Watch, watched
from diffnea.identify.request import Request
from diffnea.identify.result import Fit
from diffnea.models import FeedForward, Model
from diffnea.recordings import as_list
from diffnea.robot import Robot, pulled, require_single
from diffnea.text import meant

AUTO = "auto"
METHODS = (AUTO, "adam", "lm", "linear")
LOSSES = (AUTO, "acceleration", "torque", "trajectory")
STARTS = ("nominal", "random")
PAYLOAD = "payload"


def fit(
    robot: Robot | FeedForward | Fit,
    data: Data,
    *,
    learn: Iterable[str] | None = None,
    actuator: str | AbstractActuator = AUTO,
    method: str = AUTO,
    loss: str = AUTO,
    start: str = "nominal",
    seed: int = 0,
    test: Data | None = None,
    robust: bool | None = None,
    starts: int | None = None,
    steps: int | None = None,
    links: Iterable[str] | None = None,
    joints: Iterable[str] | None = None,
    known: Mapping[str, object] | None = None,
    feet: Mapping[str, Foot] | None = None,
    options: Options | None = None,
    progress: Watch | None = None,
) -> Fit:
    """Learn a model from recordings or samples, and judge it on a part that is kept back, or on `test`.

    Args:
        robot: the robot as its file has it, which is a prior; or an earlier fit, whose robot and actuator are taken; or
            a network (`FeedForward`), which is learned as it is.
        data: recordings or `Samples`, one or several.
        learn: any of inertia, kinematics, armature, calibration (zero positions of the joints), actuator; or payload
            alone. By default inertia and actuator, and with `actuator="auto"` also what evidence asks for.
        actuator: parts joined by +, or an instance; "auto" chooses parts by evidence on the training data. An actuator
            given by name is always learned.
        method: "auto", "lm" (one start), "adam" (the paper's) or "linear" (regression).
        loss: what is compared: "acceleration", "torque", "trajectory"; "auto" takes torques where every joint is
            driven, trajectories where some are not.
        start: "nominal" begins with the robot as given, "random" with robots that share only its size and mass.
        seed: of everything that is drawn.
        test: recordings or `Samples` for the verdict; without them a part of `data` is kept back.
        robust: weight outliers down; None leaves that to the method.
        starts: how many starts race; None leaves that to the method.
        steps: iterations of the method, at most; None leaves that to it.
        links: whose inertia is learned; by default all.
        joints: whose placement, armature or zero is learned; by default all.
        known: coefficients of the actuator that are set and not learned, as `{"delay": 2}`.
        feet: of a robot with a free base that stands or walks, the places that touch the ground, by name; their forces
            need not be known. Without feet it is in the air.
        options: the tuned numbers.
        progress: `progress(stage, step, steps, error)` is called on the way.
    """
    _check(method=(method, METHODS), loss=(loss, LOSSES), start=(start, STARTS))
    _check_whole(seed=seed, starts=starts, steps=steps)
    _check_types(actuator, options, known)
    if isinstance(robot, Fit):
        robot, actuator, earlier = robot.robot, _taken(robot, actuator), robot
    else:
        earlier = None
    _check_kind(robot, method, loss)
    robot = pulled(robot) if isinstance(robot, Robot) else robot
    named = (learn,) if isinstance(learn, str) else None if learn is None else tuple(learn)
    with double_precision(), np.errstate(all="ignore"), watched(progress):  # what is not finite ends in the verdict
        request = Request(
            given=robot,
            data=data,
            learn=named,
            actuator=actuator,
            method=method,
            loss=loss,
            start=start,
            seed=seed,
            test=test,
            robust=robust,
            starts=starts,
            steps=steps,
            links=None if links is None else tuple(links),
            joints=None if joints is None else tuple(joints),
            known=dict(known or {}),
            options=options or Options(),
            feet=dict(feet or {}),
        )
        found = _run(request, earlier)
    return found if is_double() else _single(found)


def _run(request: Request, earlier: Fit | None) -> Fit:
    """By the way that suits the robot and what is learned."""
    if isinstance(request.given, Robot) and not request.given.tree.simple:
        flies = any(getattr(getattr(each, "base", None), "rotors", None) is not None for each in as_list(request.data))
        if not flies and request.learn and PAYLOAD in request.learn:
            return fit_floating_payload(request, request.given, earlier)
        return (FlightPlan if flies else FloatingPlan)(request, request.given).run()
    if request.feet:
        raise ValueError("fit: feet are for a robot with a free base; leave them out")
    return fit_payload(request, earlier) if request.learn and PAYLOAD in request.learn else Plan(request).run()


def _single(found: Fit) -> Fit:
    """The models in single precision."""
    single = partial(jax.tree.map, lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float32))
    return replace(found, model=single(found.model), consistent=single(found.consistent))


def _taken(earlier: Fit, actuator: str | AbstractActuator) -> str | AbstractActuator:
    """The actuator of an earlier fit, unless another is asked for."""
    own = isinstance(earlier.model, Model) and actuator == AUTO
    return earlier.model.actuator if own and isinstance(earlier.model, Model) else actuator


def _check(**given: tuple[str, tuple[str, ...]]) -> None:
    for name, (value, accepted) in given.items():
        if value not in accepted:
            raise ValueError(f'fit: {name} is "{value}"{meant(str(value), accepted)}; use {", ".join(accepted)}')


def _check_whole(seed: int, **counts: int | None) -> None:
    for name, value in {"seed": seed, **counts}.items():
        least = 0 if name == "seed" else 1
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least):
            raise ValueError(f"fit: {name} is {value!r}; give a whole number from {least} on")


def _check_types(actuator: object, options: object, known: Mapping[str, object] | None) -> None:
    if not isinstance(actuator, str | AbstractActuator):
        raise TypeError(f"fit: actuator is a {type(actuator).__name__}; give parts joined by +, or an actuator")
    if not isinstance(options, Options | None):
        raise TypeError(f"fit: options is a {type(options).__name__}; give Options")
    for name, value in (known or {}).items():
        try:
            np.asarray(value, float)
        except (TypeError, ValueError):
            raise TypeError(f"fit: known has {name} = {value!r}; give one number, or one a joint") from None


def _check_kind(robot: object, method: str, loss: str) -> None:
    if isinstance(robot, FeedForward):
        if loss == "torque" or method == "linear":
            what = f"loss {loss}" if loss == "torque" else "method linear"
            raise ValueError(f"fit: a network has no inverse dynamics for {what}; use acceleration or trajectory")
    elif not isinstance(robot, Robot):
        raise TypeError(f"fit: robot is a {type(robot).__name__}; give a Robot, an earlier Fit or a FeedForward")
    elif robot.base == "fixed":
        require_single(robot, "fit")
