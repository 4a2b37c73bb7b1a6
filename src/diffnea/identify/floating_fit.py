"""A fit of a robot with a free base, from its request to a `Fit`: regression of joint torques and of no wrench."""

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea import parameters
from diffnea.actuators import AbstractActuator
from diffnea.errors import DiffneaError
from diffnea.files import Json
from diffnea.identify.determine.findings import knowledge
from diffnea.identify.floating.column_noise import with_noise
from diffnea.identify.floating.contacts import Feet, balls, check_feet, prepared, projected, with_feet
from diffnea.identify.floating.friction_choice import FRICTION_TRIED, Chosen, choose
from diffnea.identify.floating.judging import assess, balance, torque_rows
from diffnea.identify.floating.linear_equations import LinearEquations
from diffnea.identify.floating.linear_rows import LinearRows, rows_of
from diffnea.identify.floating.motion_columns import BASE, BASE_ROWS, IMU_ERRORS, Beside, columns, given_numbers, sizes
from diffnea.identify.floating.solving import Solved, linearised, solve
from diffnea.identify.floating.stretches import Parts, Stretch, bandwidth_of, split
from diffnea.identify.judge.verdict import another_robot, judge
from diffnea.identify.notes import Note, note
from diffnea.identify.problem.unknowns import Unknowns, unknowns
from diffnea.identify.progress import stage
from diffnea.identify.request import ROWS_A_NUMBER, Request
from diffnea.identify.result import Fit
from diffnea.identify.solve.solution import Status
from diffnea.recordings import RecordingError
from diffnea.robot import Robot, refuse_loops

FLOATING_LEARN = ("inertia", "armature", "actuator")


@dataclass(frozen=True)
class FloatingPlan:
    """One fit, step by step."""

    request: Request
    robot: Robot

    def run(self) -> Fit:
        """Prepare, choose, solve, judge."""
        check_request(self.request, self.robot)
        parts = self.prepared()
        plan, guessed = self._embodied()
        scale = sizes(plan.robot, parts.fitted)
        rows, test = plan.rows(parts, scale)
        chosen = plan._chosen(rows, parts)
        free = plan._unknowns(chosen)
        count = sum(each.count for each in rows)
        if count < ROWS_A_NUMBER * free.size:
            raise RecordingError(f"fit: {count} equations for {free.size} numbers; record longer")
        with stage("searching"):
            equations = LinearEquations(free, plan.beside(parts))
            solved = solve(equations, rows, scale[BASE:], plan.request.options.solve)
        with stage("judging"):
            return plan._fit(parts, solved, test, scale, (*guessed, *chosen.notes), known=not guessed)

    def prepared(self) -> Parts:
        """The data as the equations of motion need them, and divided."""
        with stage("preparing data"):
            return self._on_feet(split(self.robot, self.request.data, self.request.test, self.request.options.problem))

    def _on_feet(self, parts: Parts) -> Parts:
        """Contacts as the projection needs them; a note says what the base stands on."""
        feet = self.request.feet
        both = [tuple(prepared(each, feet) for each in several) for several in (parts.fitted, parts.test)]
        known = {name for each in parts.fitted for name in each.contact_names}
        always = [name for name in feet if name not in known]
        said = [note("feet", ", ".join(feet))] if feet else [note("in-the-air")]
        said += [note("feet-always", ", ".join(always))] if always else []
        return replace(parts, fitted=both[0], test=both[1], notes=(*parts.notes, *said))

    def _embodied(self) -> tuple["FloatingPlan", tuple[Note, ...]]:
        """With bodies of a usual size for a robot whose file has no masses, and little trust in them."""
        if parameters.has_mass(self.robot):
            return self, ()
        guess, options = parameters.with_reference_bodies(self.robot), self.request.options
        weak = replace(options, solve=replace(options.solve, strength=1.0, most_strength=10.0))
        said = note("no-masses", mass=float(np.sum(np.asarray(guess.inertia.mass))))
        return FloatingPlan(replace(self.request, options=weak), guess), (said,)

    def rows(
        self, parts: Parts, scale: Float[np.ndarray, " v"]
    ) -> tuple[tuple[LinearRows, ...], tuple[LinearRows, ...]]:
        """The equations of what is fitted, with what noise did to them, and of what is kept back."""
        table = partial(_scaled, self.robot, scale, _has_imu(parts), self.request.feet)
        band = bandwidth_of(parts.fitted)
        found = [rows_of(each, table, band) for each in (parts.fitted, parts.test)]
        if not all(found):
            raise RecordingError(f"fit: recordings are too short to compare equations up to {band:.3g} Hz")
        return with_noise(found[0], parts.fitted, table, band), found[1]

    def beside(self, parts: Parts) -> Beside:
        """What is learned of the sensor and of feet."""
        return with_feet(Beside.of(_has_imu(parts)), self.request.feet)

    def problems(self, parts: Parts) -> list[Note]:
        """What makes a fit worthless."""
        noisy = max(each.noise for each in parts.fitted)
        return [note("positions-are-noise", share=noisy)] if noisy > self.request.options.judge.noise else []

    def _chosen(self, rows: tuple[LinearRows, ...], parts: Parts) -> Chosen:
        asked = self.request.actuator
        if asked == "auto":
            with stage("choosing friction"):
                return choose(self.robot, rows, self.beside(parts), self.request.options.solve)
        return Chosen(str(asked), False, ())

    def _unknowns(self, chosen: Chosen) -> Unknowns:
        asked = self.request
        learn = asked.learn
        if learn is None:
            learn = FLOATING_LEARN if chosen.armature else ("inertia", "actuator")
        key, given = jax.random.key(asked.seed), (asked.links, asked.joints, asked.known)
        return unknowns(self.robot, learn, chosen.actuator, key, *given)

    def _fit(
        self,
        parts: Parts,
        solved: Solved,
        test: tuple[LinearRows, ...],
        scale: Float[np.ndarray, " v"],
        said: tuple[Note, ...],
        known: bool,
    ) -> Fit:
        equations, found, asked = solved.equations, solved.posterior, self.request
        free = equations.free
        before, model = (free.model(jnp.asarray(theta)) for theta in (free.start, solved.own))
        phi = equations.phi(found.theta), equations.phi(equations.start)
        ours, theirs = (torque_rows(test, each) for each in phi)
        metrics, judged = assess(ours, theirs, known, asked.options.judge)
        status = Status.CONVERGED if found.converged else Status.STOPPED_EARLY
        stopped = () if found.converged else (note("search-stopped"),)
        strange = another_robot(before, model, asked.options.judge) if known else ()
        names, told = (*BASE_ROWS, *self.robot.joint_names), partial(linearised, solved, parts.fitted)
        verdict = judge(metrics, judged, names, self.problems(parts), stopped, strange, asked.options.judge)
        return Fit(
            model=model,
            metrics=metrics,
            verdict=verdict,
            loss=found.loss,
            history=found.history,
            notes=(
                *parts.notes,
                note("kept-back", said=parts.kept_back),
                *said,
                *_beside(solved, parts, asked.feet),
                _trust(solved),
            ),
            config={**_config(asked, free, parts), "beside": solved.beside},
            consistent=model,
            knowledge=partial(knowledge, before, model, free.learned, told, asked.options.determine),
            options=asked.options,
            outcome=status,
            balance=balance(test[0], parts.test[0], names, scale, phi, bool(asked.feet), solved.covariance),
        )


def _scaled(robot: Robot, scale: Float[np.ndarray, " v"], imu: bool, feet: Feet, stretch: Stretch) -> np.ndarray:
    table, given = columns(robot, stretch, imu) / scale[:, None], given_numbers(robot, imu)
    return projected(table, robot, stretch, feet, scale, given)


def _has_imu(parts: Parts) -> bool:
    return any(each.imu for each in (*parts.fitted, *parts.test))


def _trust(solved: Solved) -> Note:
    strength = solved.posterior.prior.strength
    least, most = (100 / np.sqrt(x) for x in (strength.max(initial=1.0), strength.min(initial=1e8)))
    return note("file-trust", least=float(least), most=float(most))


def _beside(solved: Solved, parts: Parts, feet: Feet) -> tuple[Note, ...]:
    """What was found of an inertial sensor's errors, and how deep feet sink in."""
    found, said = solved.posterior.theta[solved.equations.free.size :], []
    if _has_imu(parts):
        errors = found[: 3 * len(IMU_ERRORS)].reshape(-1, 3)
        bias, turn, place, drift = (float(each) for each in np.linalg.norm(errors, axis=1))
        said.append(note("imu-mounting", bias=bias, turn=turn, place=1e3 * place, drift=drift))
    if names := balls(feet):
        deep = -1e3 * found[-2 * len(names) : -len(names)]
        said.append(note("feet-sink", ", ".join(f"{name} {deep:.2g}" for name, deep in zip(names, deep, strict=True))))
    return tuple(said)


def _config(asked: Request, free: Unknowns, parts: Parts) -> Json:
    both = (*parts.fitted, *parts.test)
    return {
        "robot": getattr(asked.given, "name", ""),
        "learn": list(free.named),
        "links": asked.links and list(asked.links),
        "joints": asked.joints and list(asked.joints),
        "known": {name: np.asarray(value).tolist() for name, value in asked.known.items()} or None,
        "actuator": _named(free.tree[1]) if asked.actuator == "auto" else str(asked.actuator),
        **{name: getattr(asked, name) for name in ("method", "start", "seed", "robust", "starts", "steps")},
        "loss": "torque",
        "samples": sum(map(len, both)),
        "recordings": list(dict.fromkeys(each.name for each in both)),
    }


def _named(actuator: AbstractActuator) -> str:
    parts = getattr(actuator, "parts", (actuator,))
    return "+".join(type(part).__name__.lower() for part in parts)


def check_request(asked: Request, robot: Robot) -> None:
    """Refuse what this regression does not know, in a line."""
    for name, kind in list(zip(robot.tree.joint_names, robot.tree.kinds, strict=True))[1:]:
        if kind in ("free", "ball"):
            raise DiffneaError(
                f'fit: joint "{name}" is {kind}; beside the base use joints of one coordinate, or lock it'
            )
    refuse_loops(robot, "fit")
    check_feet(robot, asked.feet)
    if asked.loss not in ("auto", "torque"):
        raise ValueError(f'fit: loss "{asked.loss}" is not for a free base; use torque')
    if asked.method not in ("auto", "lm") or asked.start != "nominal" or asked.robust:
        raise ValueError(
            "fit: a free base is fitted by method auto from the robot file; leave method, start, robust out"
        )
    if not isinstance(asked.actuator, str) or asked.actuator not in ("auto", *FRICTION_TRIED):
        raise ValueError(f"fit: of a free base actuator is auto, {', '.join(FRICTION_TRIED)}; leave other parts out")
    strange = set(asked.learn or ()) - set(FLOATING_LEARN)
    if strange:
        raise ValueError(
            f"fit: of a free base learn any of {', '.join(FLOATING_LEARN)}; {sorted(strange)[0]} is for fixed bases"
        )
