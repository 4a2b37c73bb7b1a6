"""A plant in Pinocchio whose joints stick: Heun's method between events, and a complementarity problem at each."""

import numpy as np
import pinocchio

from benchmarks.outside.robots import Friction

# Rotor of a joint that is stuck, beside which all other inertia is nothing; its acceleration is then set to zero.
LOCKED = 1e12
# A velocity this far from zero, as a share of that before the step, has been brought to zero.
AT_REST, ATTEMPTS = 1e-9, 8
# The smallest part of a step between two events, so that time goes on.
LEAST_PART = 1e-3
SWEEPS, SETTLED = 500, 1e-13


class Plant:
    """State and mode of a robot: each joint with dry friction slips one way (`way` ±1) or is stuck (0).

    Within a mode everything is smooth. A step in which a velocity changes sign is cut where it is zero; which joints
    then stick is decided for all that stand still at once: `a = 0, |f| ≤ f_s` or `a f > 0, |f| = f_s`.
    `springs` and `dampers` pull each joint to zero, for joints that bend.
    """

    def __init__(self, model: pinocchio.Model, friction: Friction, step: float, springs=None, dampers=None):
        self.model, self.data, self.step = model, model.createData(), step
        self.armature = np.array(model.armature)
        self.springs = np.zeros(model.nv) if springs is None else springs
        self.dampers = np.zeros(model.nv) if dampers is None else dampers
        self.bending = bool(np.any(self.springs)) or bool(np.any(self.dampers))
        self.dry = friction.static > 0
        self.way, self.stuck = np.zeros(model.nv), np.zeros(model.nv, bool)
        self.rub(friction)
        self.events = 0

    def rub(self, friction: Friction) -> None:
        """Change friction."""
        self.static, self.kinetic, self.viscous = friction.static, friction.kinetic, friction.viscous
        self.drop = friction.static - friction.kinetic
        self.sharpness = -1 / np.where(self.dry, friction.speed, 1.0) ** 2

    def start(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> None:
        """Take a state; joints that stand still are stuck where they can be."""
        self.q, self.v, self.tau = q.astype(float), v.astype(float), tau
        self.way = np.where(self.dry, np.sign(self.v), 0.0)
        self._decide(self.dry & (self.v == 0))

    def advance(self, tau: np.ndarray, seconds: float) -> np.ndarray:
        """Hold the input for so long; returns the accelerations at the beginning."""
        self.tau = tau
        count = max(1, int(np.ceil(seconds / self.step - 1e-9)))
        whole, first = seconds / count, None
        for _ in range(count):
            left = whole
            while left > 1e-12 * whole:
                if self.holding:
                    self._release()
                acceleration = self._acceleration(self.q, self.v)
                first = acceleration if first is None else first
                left -= self._step(acceleration, left, whole)
        assert first is not None
        return first

    def _acceleration(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        dry = self.way * (self.kinetic + self.drop * np.exp(self.sharpness * v * v))
        force = self.tau - dry - self.viscous * v
        if self.bending:
            force -= self.springs * q + self.dampers * v
        a = pinocchio.aba(self.model, self.data, q, v, force)
        if self.holding:
            a[self.stuck] = 0.0
        return a

    def _heun(self, a: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
        v1 = self.v + h * a
        b = self._acceleration(self.q + h * self.v, v1)
        return self.q + (h / 2) * (self.v + v1), self.v + (h / 2) * (a + b)

    def _step(self, a: np.ndarray, left: float, whole: float) -> float:
        """To the end of the step or to the first velocity that comes to zero; returns the time that took."""
        q, v = self._heun(a, left)
        crossed = self.way * v < 0
        if not crossed.any():
            self.q, self.v = q, v
            return left
        part, joint = self._first_zero(a, v, crossed, left)
        part = min(max(part, LEAST_PART * whole), left)
        self.q, v = self._heun(a, part)
        v[joint] = 0.0
        standing = self.stuck.copy()
        standing[joint] = True
        self.v = v
        self._decide(standing)
        self.events += 1
        return part

    def _first_zero(self, a, v, crossed, left: float) -> tuple[float, int]:
        """When the first of the joints that turn back stands still, by false position, and which that is."""
        speed = np.abs(self.v) + 1e-300
        shares = np.where(crossed, speed / (speed + np.abs(v)), np.inf)
        joint = int(np.argmin(shares))
        low, high = (0.0, self.v[joint]), (left, v[joint])
        scale = max(abs(low[1]), abs(high[1]))
        time = left * float(shares[joint])
        for _ in range(ATTEMPTS):
            found = self._heun(a, time)[1][joint]
            if abs(found) <= AT_REST * scale:
                break
            low, high = ((time, found), high) if found * self.way[joint] > 0 else (low, (time, found))
            time = (low[0] * high[1] - high[0] * low[1]) / (high[1] - low[1])
        return time, joint

    def _release(self) -> None:
        """Let go of what is stuck where holding takes more than static friction."""
        a = self._acceleration(self.q, self.v)
        need = self.tau - pinocchio.rnea(self.model, self.data, self.q, self.v, a)
        if np.any(np.abs(need[self.stuck]) > self.static[self.stuck]):
            self._decide(self.stuck.copy())

    def _decide(self, standing: np.ndarray) -> None:
        """Which of the joints that stand still stay so: projected Gauss-Seidel for their friction forces."""
        z = np.flatnonzero(standing)
        self._lock(np.zeros_like(self.stuck))
        self.way[z] = 0.0
        free = self._acceleration(self.q, self.v)
        upper = np.triu(pinocchio.crba(self.model, self.data, self.q))
        inverse = np.linalg.inv(upper + np.triu(upper, 1).T)[np.ix_(z, z)]
        most, force, a = self.static[z], np.zeros(len(z)), free[z]
        for _ in range(SWEEPS):
            before = force.copy()
            for k in range(len(z)):
                force[k] = np.clip(force[k] + a[k] / inverse[k, k], -most[k], most[k])
                a = free[z] - inverse @ force
            if np.all(np.abs(force - before) <= SETTLED * most):
                break
        slips = (np.abs(force) >= most) & (force * a > 0)
        self.way[z] = np.where(slips, np.sign(force), 0.0)
        locked = np.zeros_like(self.stuck)
        locked[z[~slips]] = True
        self._lock(locked)

    def _lock(self, stuck: np.ndarray) -> None:
        self.stuck, self.holding = stuck, bool(stuck.any())
        self.model.armature = np.where(stuck, LOCKED, self.armature)
