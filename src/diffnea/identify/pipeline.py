"""How a fit runs, in five stages: prepare the data, pose the problem, solve it, determine what it tells, judge it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from diffnea import parameters
from diffnea.actuators import AbstractActuator
from diffnea.identify.determine.findings import knowledge
from diffnea.identify.determine.zero_positions import far_zeros
from diffnea.identify.estimation import Estimator, Outcome
from diffnea.identify.friction.before_choice import with_ways
from diffnea.identify.judge.assess import assess
from diffnea.identify.judge.held_out import held_out
from diffnea.identify.judge.mistakes.hints import hints
from diffnea.identify.judge.quick_motion import beyond_the_model
from diffnea.identify.judge.rivals import rivals
from diffnea.identify.judge.verdict import ACCEPTED, Verdict, another_robot, judge
from diffnea.identify.notes import Note, note
from diffnea.identify.problem.measurements.goals import are_goals
from diffnea.identify.problem.measurements.preparation_notes import about_data, still_joints
from diffnea.identify.problem.measurements.tracks import Split, at_instants, spread_of
from diffnea.identify.problem.open_scale import refuse_open_scale
from diffnea.identify.problem.unknowns import LEARN, Unknowns, unknowns
from diffnea.identify.progress import stage
from diffnea.identify.request import ROWS_A_NUMBER, Request
from diffnea.identify.result import Fit
from diffnea.identify.servo.plan import planned
from diffnea.identify.solve.regression.choice import Choice, choose
from diffnea.identify.solve.solution import Status
from diffnea.models import AbstractModel, FeedForward, Model
from diffnea.robot import Robot


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
            pointed = with_ways(asked.given, parts, asked.options.solve) if asked.actuator == "auto" else parts
            found = choose(asked.given, pointed, *ways, asked.options, not self.guessed, asked.measured)
        known = {**found.known, **asked.known}
        request = replace(asked, actuator=found.actuator, loss=found.loss, learn=found.learn, known=known)
        return replace(self, request=request, choice=found)

    def _goals(self, parts: Split) -> bool:
        """Whether commands are position goals, of servos that were asked for or that the data show."""
        asked = self.request
        if asked.actuator == "auto":
            return asked.loss in ("auto", "trajectory") and (asked.goals or are_goals(parts.fitted))
        if isinstance(asked.actuator, str):
            return "servo" in asked.actuator.split("+")
        return asked.actuator.loop is not None

    def _for_goals(self, parts: Split) -> "Plan":
        """The plan of a fit to whole motions from their goals."""
        asked = self.request
        if not parts.timed or asked.loss not in ("auto", "trajectory"):
            raise ValueError("fit: a servo is fitted to trajectories from their goals; give recordings, loss auto")
        assert isinstance(asked.given, Robot)
        wanted = Choice(asked.actuator, "trajectory", asked.learn, known=asked.known)
        found = planned(asked.given, parts, wanted, self._with, asked.options.servo)
        more = {"learn": found.learn, "known": dict(found.known), "actuator": found.actuator, "loss": found.loss}
        return replace(self, request=replace(asked, **more), choice=found)

    def _with(self, choice: Choice, actuator: str) -> Unknowns:
        """What is free of a choice, with an actuator."""
        request = replace(self.request, learn=choice.learn, known=dict(choice.known))
        return replace(self, request=request)._unknowns_of(actuator)

    def _unknowns_of(self, actuator: str | AbstractActuator) -> Unknowns:
        """What is free, with an actuator."""
        asked = self.request
        key, chosen = jax.random.key(asked.seed), (asked.links, asked.joints, asked.known)
        return unknowns(asked.given, asked.learn, actuator, key, *chosen)

    def _run(self, parts: Split) -> Fit:
        asked = self.request
        if asked.loss == "trajectory" and not parts.timed:
            raise ValueError("fit: loss trajectory needs recordings; Samples have no order in time")
        free = self._unknowns_of(asked.actuator)
        if asked.method != "linear" and isinstance(asked.actuator, str):  # of an earlier fit the scale is known
            refuse_open_scale(free, asked.loss)
        before = free.model(jnp.asarray(free.start))
        problems = self._problems(free, parts)
        if problems:
            return self._fit(free, parts, before, Outcome(before, float("nan"), Status.NOT_FINITE), problems)
        measured = asked.measured or bool(self.choice and self.choice.measured)
        free, parts, outcome = Estimator(asked, measured).outcome(free, parts, before, self._goals(parts))
        problems = [note("not-finite-start")] if outcome.status is Status.NOT_FINITE else []
        return self._fit(free, parts, before, outcome, problems)

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

    def _unexcited(self) -> tuple[Note, ...]:
        """Whether the recordings are too small or too slow to tell anything of other motion."""
        found = self.choice.excitation if self.choice else None
        return () if found is None else found.lacking(self.request.joint_names, self.request.options.judge)

    def _causes(
        self, free: Unknowns, parts: Split, model: AbstractModel, verdict: Verdict, pointless: bool
    ) -> tuple[Note, ...]:
        """What explains the data better: of a fit that would be accepted, what does so surely."""
        given, options = self.request.given, self.request.options
        if not isinstance(given, Robot) or not options.judge.hint_below > 0:
            return ()
        said = () if verdict == ACCEPTED else hints(given, parts.fitted, model, options.judge)
        if said or pointless or not isinstance(model, Model):
            return said
        found, moved = self.choice.parts if self.choice else None, "kinematics" in free.named
        return rivals(given, model, parts, found, options, moved)

    def _scope(self, verdict: Verdict) -> tuple[Note, ...]:
        """What an accepted fit is not known to be good for, or what another may lack, unless its verdict says it."""
        found = self.choice.excitation if self.choice else None
        if found is None:
            return ()
        scope = found.scope if verdict == ACCEPTED else found.slowest
        said = scope(self.request.joint_names, self.request.options.judge)
        return tuple(each for each in said if each.code not in verdict.codes)

    def _zeros(self, free: Unknowns, found: AbstractModel) -> Sequence[Note]:
        """Zero positions that were learned and are far from the file's."""
        given = self.request.given
        if "calibration" not in free.named or not isinstance(given, Robot) or not isinstance(found, Model):
            return ()
        return far_zeros(given, found.robot)

    def _fit(self, free: Unknowns, parts: Split, before: AbstractModel, outcome: Outcome, problems: list[Note]) -> Fit:
        asked, spread = self.request, spread_of(parts.fitted)
        known = not self.guessed
        with stage("judging"):
            metrics, judged = assess(
                outcome.model, before, parts, spread, asked.compares_torques, known, asked.options.judge
            )
            stopped = [note("search-stopped")] if outcome.status is Status.STOPPED_EARLY else []
            notes = (*stopped, *still_joints(parts, asked.joint_names))
            strange = another_robot(before, outcome.model, asked.options.judge) if known and asked.from_file else ()
            strange, options = (*strange, *self._unexcited()), asked.options.judge
            quick = parts.limits, outcome.model, parts.fitted, metrics.fit, asked.joint_names
            limits = beyond_the_model(*quick, asked.options.judge)
            said = asked.joint_names, problems, notes
            verdict = judge(metrics, judged, *said, strange, options=options, limits=limits)
            causes = self._causes(free, parts, outcome.model, verdict, bool(problems))
            if causes and verdict == ACCEPTED:
                verdict = judge(metrics, judged, *said, (*causes, *strange), options=options, limits=limits)
            else:
                verdict = verdict.also(causes)
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
                *self._zeros(free, outcome.model),
                *self._scope(verdict),
            ),
            config=asked.config(free.named, parts),
            consistent=outcome.consistent or outcome.model,
            knowledge=partial(
                knowledge, before, outcome.model, free.learned, outcome.linearised, asked.options.determine
            ),
            held_out=held_out(before, parts, spread),
            options=asked.options,
            outcome=outcome.status,
        )
