"""Estimates: the data posed for a loss, the search for θ, and after it trajectories or friction anew."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import jax.numpy as jnp
import numpy as np

from diffnea.identify.determine.findings import linearised, with_motion
from diffnea.identify.determine.restart import restarted
from diffnea.identify.friction.prandtl import known as with_ways
from diffnea.identify.friction.prandtl_fit import slipping
from diffnea.identify.notes import Note, note
from diffnea.identify.problem.least_squares import Problem
from diffnea.identify.problem.linearised import Linearised
from diffnea.identify.problem.measurements.equations import batch, equations
from diffnea.identify.problem.measurements.reversals import without_reversals
from diffnea.identify.problem.measurements.tracks import Split, spread_of
from diffnea.identify.problem.measurements.weighting import scales
from diffnea.identify.problem.prior import Prior
from diffnea.identify.problem.unknowns import Unknowns, late
from diffnea.identify.progress import stage
from diffnea.identify.request import Request
from diffnea.identify.servo.whole_motions import fit_servo
from diffnea.identify.solve import multistart
from diffnea.identify.solve.file_prior import file_prior
from diffnea.identify.solve.regression.linear import LINEAR_FRICTION, regress
from diffnea.identify.solve.solution import Status
from diffnea.identify.solve.starts import near, random_starts, settled
from diffnea.identify.trajectory import chains
from diffnea.models import AbstractModel, Model
from diffnea.robot import Robot

# Starts side by side; fewer where there are many numbers, which take longer and mislead less.
STARTS_OF_FEW, STARTS_OF_MANY, MANY_NUMBERS = 8, 4, 64


@dataclass(frozen=True)
class Outcome:
    """What a learner brings."""

    model: AbstractModel
    loss: float
    status: Status
    history: tuple[float, ...] = ()
    notes: tuple[Note, ...] = ()
    linearised: Callable[[], Linearised] | None = None
    consistent: AbstractModel | None = None


@dataclass(frozen=True)
class Estimator:
    """The second and third stage of one fit, as its request says."""

    request: Request
    measured: bool = False  # inputs were, not commanded

    def outcome(
        self, free: Unknowns, parts: Split, before: AbstractModel, goals: bool
    ) -> tuple[Unknowns, Split, Outcome]:
        """What was free in the end, the data as they were compared, and the estimate."""
        if goals:
            free, outcome = self._from_goals(free, parts)
            return free, parts, outcome
        asked = self.request
        parts, weight = self._posed(free, parts, before)
        if asked.method == "linear":
            return free, parts, self._regressed(free, parts, before, weight)
        with stage("searching"):
            found = self._search(self._task(free, parts, weight))
        if not found.finite:
            return free, parts, Outcome(before, float("nan"), Status.NOT_FINITE, notes=found.notes)
        if asked.loss != "trajectory" and isinstance(asked.given, Robot):
            found = self._restarted(free, found)
        return free, parts, self._improved(free, parts, found)

    def _posed(self, free: Unknowns, parts: Split, before: AbstractModel) -> tuple[Split, np.ndarray]:
        """The data as the loss needs them, and what residuals are multiplied with."""
        asked = self.request
        weight = scales("torque" if asked.method == "linear" else asked.loss, before, parts.fitted)
        parts = self._with_past(parts, before, weight)
        if asked.loss != "trajectory" and isinstance(before, Model):
            parts = without_reversals(parts, before, asked.loss, free.size, asked.options.problem)
        return parts, weight

    def _from_goals(self, free: Unknowns, parts: Split) -> tuple[Unknowns, Outcome]:
        """Whole motions of servos."""
        with stage("following goals"):
            found = fit_servo(free, parts, isinstance(self.request.actuator, str), self.request.options.servo)
        status = Status.CONVERGED if found.converged else Status.STOPPED_EARLY
        outcome = Outcome(found.model, found.loss, status, found.history, found.notes, found.linearised)
        return found.free, outcome

    def _restarted(self, free: Unknowns, found: multistart.Found) -> multistart.Found:
        """Once more from the friction that profiles prefer, where that is as good."""
        weighed = found.posterior

        def regularised(problem: Problem) -> Problem:
            return problem if weighed is None else weighed.prior.added(problem, weighed.variance)

        with stage("trying other friction"):
            again = restarted(free, found.rows, found.theta, self.request.loss, found.loss, regularised)
        return found if again is None else replace(found, theta=again.theta, loss=again.loss)

    def _regressed(self, free: Unknowns, parts: Split, before: AbstractModel, weight: np.ndarray) -> Outcome:
        """Regression, which needs no search."""
        asked = self.request
        if not isinstance(asked.actuator, str) or asked.actuator not in LINEAR_FRICTION:
            raise ValueError(
                f"fit: method linear takes actuator {', '.join(LINEAR_FRICTION)} by name; use auto for others"
            )
        if set(free.learned) - {"inertia", "actuator"} or asked.links is not None or asked.known:
            raise ValueError("fit: method linear learns all inertias and friction; leave kinematics and the like out")
        assert isinstance(before, Model)
        found = regress(before.robot, asked.actuator, parts.fitted, weight, free.learned)
        notes = (note("regression-rank", rank=found.rank, size=free.size),)
        notes = notes if found.physical else (*notes, note("regression-unphysical"))
        loss = found.loss
        return Outcome(found.model, loss, Status.CONVERGED, (loss,), notes, lambda: found.linearised, found.consistent)

    def _task(self, free: Unknowns, parts: Split, weight: np.ndarray) -> multistart.Task:
        most, asked = late(free), self.request
        count = asked.starts or (STARTS_OF_MANY if free.size > MANY_NUMBERS else STARTS_OF_FEW)
        draw = random_starts if asked.start == "random" else near
        return multistart.Task(
            loss="acceleration" if asked.loss == "trajectory" else asked.loss,
            free=free,
            train=batch(parts.train, most, weight),
            validation=batch(parts.validation, most, weight),
            rows=equations(parts.fitted, most, weight),
            whole=batch(parts.fitted, most, weight),
            starts=draw(free, asked.seed, count),
            prior=self._prior(free, parts),
            seed=asked.seed,
            options=asked.options.solve,
            robust=bool(asked.robust),
            torque=self._torque_weight(free, parts),
            rough=asked.loss == "trajectory" and asked.from_file,
        )

    def _with_past(self, parts: Split, before: AbstractModel, weight: np.ndarray) -> Split:
        """The motion as a loss may see it: inverse dynamics know how a joint came to where it is."""
        if not parts.timed or not self.request.compares_torques or not isinstance(before, Model):
            return parts
        with stage("looking where joints turn back"):
            slip = slipping(before, parts.fitted, weight, self.request.options.solve)
        if slip is None:
            return parts
        names = ("train", "validation", "fitted", "test")
        motion = {name: with_ways(getattr(parts, name), before.actuator, slip) for name in names}
        return replace(
            parts,
            **motion,
            slip=tuple(slip.lengths.tolist()),
            hold=tuple(np.broadcast_to(slip.hold, len(slip.lengths)).tolist()),
        )

    def _prior(self, free: Unknowns, parts: Split) -> Prior | None:
        """The robot file, where it may be known; a network has none."""
        torque = self._torque_weight(free, parts)
        if torque is None or not self.request.from_file:
            return None
        return file_prior(free, 1 / torque, self.request.options.solve)

    def _torque_weight(self, free: Unknowns, parts: Split) -> np.ndarray | None:
        """For a robot, what residuals of torque are multiplied with."""
        if not isinstance(self.request.given, Robot):
            return None
        return scales("torque", free.model(jnp.asarray(free.start)), parts.fitted)

    def _search(self, task: multistart.Task) -> multistart.Found:
        method, steps = self.request.method, self.request.steps
        if method == "adam":
            return multistart.by_adam(task, **({} if steps is None else {"steps": steps}))
        if steps is not None:
            task = replace(task, options=replace(task.options, iterations=steps))
        return multistart.by_least_squares(task) if method == "lm" else multistart.by_race(task)

    def _improved(self, free: Unknowns, parts: Split, found: multistart.Found) -> Outcome:
        """What a search brings, and after it the trajectory loss where that is asked for."""
        problem, loss = None, self.request.loss
        if loss == "trajectory":
            given = (free.start,) if self.request.from_file else ()
            with stage("following trajectories"):
                found, problem = chains.improve(
                    found,
                    free,
                    parts,
                    spread_of(parts.fitted),
                    given,
                    self.request.seed,
                    self.request.options.trajectory,
                )
        found = replace(found, theta=settled(found.theta, free))
        model = free.model(jnp.asarray(found.theta))
        if problem is None:
            problem = partial(linearised, free, found.rows, found.theta, loss, self.measured)
        else:
            problem = partial(
                with_motion, problem, free, found.rows, partial(self._equations, free, parts, found.theta)
            )
        status = Status.CONVERGED if found.converged else Status.STOPPED_EARLY
        return Outcome(model, found.loss, status, found.history, found.notes, problem)

    def _equations(self, free: Unknowns, parts: Split, theta: np.ndarray) -> Linearised:
        """The torque equations of the data, solved from where trajectories ended: friction is profiled by them."""
        plan = replace(self, request=replace(self.request, loss="torque"))
        posed, weight = plan._posed(free, parts, free.model(jnp.asarray(theta)))
        found = multistart.by_least_squares(replace(plan._task(free, posed, weight), starts=theta[None]))
        found = plan._restarted(free, found) if found.finite else replace(found, theta=theta)
        return linearised(free, found.rows, found.theta, "torque", self.measured)
