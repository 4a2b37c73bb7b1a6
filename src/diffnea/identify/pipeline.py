"""How a fit runs, in five stages: prepare the data, pose the problem, solve it, determine what it tells, judge it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from diffnea import parameters
from diffnea.identify.determine.findings import knowledge, linearised, with_motion
from diffnea.identify.determine.restart import restarted
from diffnea.identify.friction.prandtl import known as with_ways
from diffnea.identify.friction.prandtl_fit import slipping
from diffnea.identify.judge.assess import assess
from diffnea.identify.judge.held_out import held_out
from diffnea.identify.judge.hints import hints
from diffnea.identify.judge.verdict import ACCEPTED, Verdict, another_robot, judge
from diffnea.identify.notes import Note, note
from diffnea.identify.problem.equations import batch, equations
from diffnea.identify.problem.goals import are_goals, followed
from diffnea.identify.problem.least_squares import Problem
from diffnea.identify.problem.linearised import Linearised
from diffnea.identify.problem.open_scale import refuse_open_scale
from diffnea.identify.problem.preparation_notes import about_data, still_joints
from diffnea.identify.problem.prior import Prior
from diffnea.identify.problem.reversals import without_reversals
from diffnea.identify.problem.tracks import Split, at_instants, spread_of
from diffnea.identify.problem.unknowns import LEARN, Unknowns, late, unknowns
from diffnea.identify.problem.weighting import scales
from diffnea.identify.progress import stage
from diffnea.identify.request import Request
from diffnea.identify.result import Fit
from diffnea.identify.servo.fit import AUTO_SERVO, fit_servo
from diffnea.identify.solve import multistart
from diffnea.identify.solve.choice import Choice, choose
from diffnea.identify.solve.file_prior import file_prior
from diffnea.identify.solve.linear import LINEAR_FRICTION, regress
from diffnea.identify.solve.solution import Status
from diffnea.identify.solve.starts import near, random_starts, settled
from diffnea.identify.trajectory import chains
from diffnea.models import AbstractModel, FeedForward, Model
from diffnea.robot import Robot

# Starts side by side; fewer where there are many numbers, which take longer and mislead less.
STARTS_OF_FEW, STARTS_OF_MANY, MANY_NUMBERS = 8, 4, 64
# Residuals for each number to learn, at least.
ROWS_A_NUMBER = 2


@dataclass(frozen=True)
class _Outcome:
    """What a learner brings."""

    model: AbstractModel
    loss: float
    status: Status
    history: tuple[float, ...] = ()
    notes: tuple[Note, ...] = ()
    linearised: Callable[[], Linearised] | None = None
    consistent: AbstractModel | None = None


@dataclass(frozen=True)
class Plan:
    """One fit, step by step."""

    request: Request
    choice: Choice | None = None
    guessed: tuple[Note, ...] = ()  # where the robot file says nothing of masses

    def run(self) -> Fit:
        """All five stages."""
        parts = self.request.prepared()
        chosen = self._embodied()._chosen(parts)
        return chosen._run(at_instants(parts) if chosen.choice and chosen.choice.measured else parts)

    def _embodied(self) -> "Plan":
        """With bodies of a usual size for a robot whose file has no masses, and little trust in them."""
        given, options = self.request.given, self.request.options
        if not isinstance(given, Robot) or parameters.has_mass(given):
            return self
        guess = parameters.with_reference_bodies(given)
        weak = replace(options, solve=replace(options.solve, strength=1.0, most_strength=10.0))
        said = note("no-masses", mass=float(np.sum(np.asarray(guess.inertia.mass))))
        return replace(self, request=replace(self.request, given=guess, options=weak), guessed=(said,))

    def _chosen(self, parts: Split) -> "Plan":
        """The plan with what was left to evidence."""
        asked = self.request
        if isinstance(asked.given, FeedForward):
            loss = "acceleration" if asked.loss == "auto" else asked.loss
            return replace(self, request=replace(asked, loss=loss))
        if self._goals(parts):
            return self._for_goals(parts)
        if asked.actuator != "auto" and asked.loss != "auto":
            return self
        with stage("choosing friction and drives"):
            ways = asked.actuator, asked.loss, asked.learn, asked.method
            found = choose(asked.given, parts, *ways, asked.options, not self.guessed, asked.measured)
        known = {**found.known, **asked.known}
        request = replace(asked, actuator=found.actuator, loss=found.loss, learn=found.learn, known=known)
        return replace(self, request=request, choice=found)

    def _goals(self, parts: Split) -> bool:
        """Whether commands are position goals, of servos that were asked for or that the data show."""
        asked = self.request
        if asked.actuator == "auto":
            return asked.loss in ("auto", "trajectory") and are_goals(parts.fitted)
        if isinstance(asked.actuator, str):
            return "servo" in asked.actuator.split("+")
        return asked.actuator.loop is not None

    def _for_goals(self, parts: Split) -> "Plan":
        """The plan of a fit to whole motions from their goals."""
        asked, said = self.request, ()
        if not parts.timed or asked.loss not in ("auto", "trajectory"):
            raise ValueError("fit: a servo is fitted to trajectories from their goals; give recordings, loss auto")
        if asked.actuator == "auto":
            follows, alike = followed(parts.fitted)
            said = (note("chosen-servo", alike=float(alike[follows].min()), actuator=AUTO_SERVO),)
        actuator = AUTO_SERVO if asked.actuator == "auto" else asked.actuator
        choice = Choice(actuator, "trajectory", asked.learn, said)
        return replace(self, request=replace(asked, actuator=actuator, loss="trajectory"), choice=choice)

    def _run(self, parts: Split) -> Fit:
        asked = self.request
        if asked.loss == "trajectory" and not parts.timed:
            raise ValueError("fit: loss trajectory needs recordings; Samples have no order in time")
        key, chosen = jax.random.key(asked.seed), (asked.links, asked.joints, asked.known)
        free = unknowns(asked.given, asked.learn, asked.actuator, key, *chosen)
        if asked.method != "linear" and isinstance(asked.actuator, str):  # of an earlier fit the scale is known
            refuse_open_scale(free, asked.loss)
        before = free.model(jnp.asarray(free.start))
        problems = self._problems(free, parts)
        if problems:
            return self._fit(free, parts, before, _Outcome(before, float("nan"), Status.NOT_FINITE), problems)
        if self._goals(parts):
            return self._from_goals(free, parts, before)
        parts, weight = self._posed(free, parts, before)
        if asked.method == "linear":
            return self._fit(free, parts, before, self._regressed(free, parts, before, weight), [])
        with stage("searching"):
            found = self._search(self._task(free, parts, weight))
        if not found.finite:
            outcome = _Outcome(before, float("nan"), Status.NOT_FINITE, notes=found.notes)
            return self._fit(free, parts, before, outcome, [note("not-finite-start")])
        if asked.loss != "trajectory" and isinstance(asked.given, Robot):
            found = self._restarted(free, found)
        return self._fit(free, parts, before, self._improved(free, parts, found), [])

    def _posed(self, free: Unknowns, parts: Split, before: AbstractModel) -> tuple[Split, np.ndarray]:
        """The data as the loss needs them, and what residuals are multiplied with."""
        asked = self.request
        weight = scales("torque" if asked.method == "linear" else asked.loss, before, parts.fitted)
        parts = self._with_past(parts, before, weight)
        if asked.loss != "trajectory" and isinstance(before, Model):
            parts = without_reversals(parts, before, asked.loss, free.size, asked.options.problem)
        return parts, weight

    def _from_goals(self, free: Unknowns, parts: Split, before: AbstractModel) -> Fit:
        """Whole motions of servos."""
        with stage("following goals"):
            found = fit_servo(free, parts, isinstance(self.request.actuator, str), self.request.options.servo)
        status = Status.CONVERGED if found.converged else Status.STOPPED_EARLY
        outcome = _Outcome(found.model, found.loss, status, found.history, found.notes, found.linearised)
        return self._fit(found.free, parts, before, outcome, [])

    def _restarted(self, free: Unknowns, found: multistart.Found) -> multistart.Found:
        """Once more from the friction that profiles prefer, where that is as good."""
        weighed = found.posterior

        def regularised(problem: Problem) -> Problem:
            return problem if weighed is None else weighed.prior.added(problem, weighed.variance)

        with stage("trying other friction"):
            again = restarted(free, found.rows, found.theta, self.request.loss, found.loss, regularised)
        return found if again is None else replace(found, theta=again.theta, loss=again.loss)

    def _regressed(self, free: Unknowns, parts: Split, before: AbstractModel, weight: np.ndarray) -> _Outcome:
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
        return _Outcome(found.model, loss, Status.CONVERGED, (loss,), notes, lambda: found.linearised, found.consistent)

    def _problems(self, free: Unknowns, parts: Split) -> list[Note]:
        """What makes a fit pointless, before it starts."""
        if not free.size:
            raise ValueError(f"fit: nothing to learn; name a part in learn: {', '.join(LEARN)}")
        problems, joints = [], self.request.given.num_joints
        rows = sum(track.q.size for track in parts.fitted)
        if rows < ROWS_A_NUMBER * free.size:
            need = -(-ROWS_A_NUMBER * free.size // joints)
            problems.append(note("too-few-samples", samples=rows // joints, size=free.size, need=need))
        spreads = [np.concatenate([getattr(t, key) for t in parts.fitted]).std(0) for key in ("q", "qd")]
        if all(np.all(spread <= 1e-12) for spread in spreads):
            problems.append(note("nothing-moves"))
        noisy = max((track.noise for track in parts.fitted), default=0.0)
        if noisy > self.request.options.judge.noise and not self._goals(parts):  # goals need no derivatives
            problems.append(note("positions-are-noise", share=noisy))
        return problems

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
            slip = slipping(before, parts.fitted, weight)
        if slip is None:
            return parts
        names = ("train", "validation", "fitted", "test")
        motion = {name: with_ways(getattr(parts, name), before.actuator, slip) for name in names}
        return replace(parts, **motion, slip=tuple(slip.lengths.tolist()), hold=slip.hold)

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
        ways = {"lm": multistart.by_least_squares, "auto": multistart.by_race}
        return ways[method](task, task.options.iterations if steps is None else steps)

    def _improved(self, free: Unknowns, parts: Split, found: multistart.Found) -> _Outcome:
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
            problem = partial(linearised, free, found.rows, found.theta, loss)
        else:
            problem = partial(
                with_motion, problem, free, found.rows, partial(self._equations, free, parts, found.theta)
            )
        status = Status.CONVERGED if found.converged else Status.STOPPED_EARLY
        return _Outcome(model, found.loss, status, found.history, found.notes, problem)

    def _equations(self, free: Unknowns, parts: Split, theta: np.ndarray) -> Linearised:
        """The torque equations of the data, solved from where trajectories ended: friction is profiled by them."""
        plan = replace(self, request=replace(self.request, loss="torque"))
        posed, weight = plan._posed(free, parts, free.model(jnp.asarray(theta)))
        found = multistart.by_least_squares(replace(plan._task(free, posed, weight), starts=theta[None]))
        found = plan._restarted(free, found) if found.finite else replace(found, theta=theta)
        return linearised(free, found.rows, found.theta, "torque")

    def _unexcited(self) -> tuple[Note, ...]:
        """Whether the recordings are too small or too slow to tell anything of other motion."""
        found = self.choice.excitation if self.choice else None
        return () if found is None else found.lacking(self.request.joint_names, self.request.options.judge)

    def _scope(self, verdict: Verdict) -> tuple[Note, ...]:
        """What an accepted fit is not known to be good for."""
        found = self.choice.excitation if self.choice and verdict == ACCEPTED else None
        return () if found is None else found.scope(self.request.joint_names, self.request.options.judge)

    def _fit(self, free: Unknowns, parts: Split, before: AbstractModel, outcome: _Outcome, problems: list[Note]) -> Fit:
        asked, spread = self.request, spread_of(parts.fitted)
        known = not self.guessed
        with stage("judging"):
            metrics, judged = assess(
                outcome.model, before, parts, spread, asked.compares_torques, known, asked.options.judge
            )
            stopped = [note("search-stopped")] if outcome.status is Status.STOPPED_EARLY else []
            notes = (*stopped, *still_joints(parts, asked.joint_names))
            strange = another_robot(before, outcome.model, asked.options.judge) if known and asked.from_file else ()
            verdict = judge(metrics, judged, asked.joint_names, problems, notes, (*strange, *self._unexcited()))
            if verdict != ACCEPTED and isinstance(asked.given, Robot):
                verdict = verdict.also(hints(asked.given, parts.fitted, outcome.model, asked.options.judge))
        return Fit(
            model=outcome.model,
            metrics=metrics,
            verdict=verdict,
            loss=outcome.loss,
            history=outcome.history,
            notes=(
                *about_data(asked.given, parts),
                *self.guessed,
                *(self.choice.notes if self.choice else ()),
                *outcome.notes,
                *self._scope(verdict),
            ),
            config=asked.config(free.named, parts),
            consistent=outcome.consistent or outcome.model,
            knowledge=partial(knowledge, before, outcome.model, free.learned, outcome.linearised),
            held_out=held_out(before, parts, spread),
            options=asked.options,
            outcome=outcome.status,
        )
