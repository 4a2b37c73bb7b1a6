"""Rigid-body dynamics in fifty digits, by Newton's and Euler's equations link by link: the measure of rounding.

Written apart from the package: three-vectors in each link's frame, mpmath's numbers, no spatial algebra.
"""

from typing import Any

import mpmath as mp
import numpy as np

DIGITS = 50


def _vector(values: Any) -> list[Any]:
    return [mp.mpf(float(value)) for value in np.asarray(values, float).reshape(-1)]


def _cross(a, b):
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def _add(*vectors):
    return [sum(parts[1:], parts[0]) for parts in zip(*vectors, strict=True)]


def _times(number, vector):
    return [number * each for each in vector]


def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _apply(matrix, vector):
    return [_dot(row, vector) for row in matrix]


def _transpose(matrix):
    return [list(column) for column in zip(*matrix, strict=True)]


def _product(a, b):
    columns = _transpose(b)
    return [[_dot(row, column) for column in columns] for row in a]


class Exact:
    """A robot's numbers as they are stored, each as an exact number of fifty digits."""

    def __init__(self, robot: Any):
        mp.mp.dps = DIGITS
        self.parents, self.slides = robot.tree.parents, [kind == "prismatic" for kind in robot.tree.kinds]
        self.count = len(self.parents)
        rotation = np.asarray(robot.placement.rotation, float)
        self.rotation = [[_vector(row) for row in matrix] for matrix in rotation]
        self.place = [_vector(row) for row in np.asarray(robot.placement.translation, float)]
        self.axis = [_vector(row) for row in np.asarray(robot.axis, float)]
        self.mass = _vector(robot.inertia.mass)
        self.first = [_vector(row) for row in np.asarray(robot.inertia.first_moment, float)]
        tensors = np.asarray(robot.inertia.rotational_matrix, float)
        self.tensor = [[_vector(row) for row in matrix] for matrix in tensors]
        self.armature, self.gravity = _vector(robot.armature), _vector(robot.gravity)

    def poses(self, q: Any) -> list[tuple[Any, Any]]:
        """Rotation and place of each link in the one it hangs on."""
        found = []
        for i, angle in enumerate(_vector(q)):
            if self.slides[i]:
                turned, shift = self.rotation[i], _times(angle, self.axis[i])
                found.append((turned, _add(self.place[i], _apply(turned, shift))))
                continue
            x, y, z = self.axis[i]
            cross = [[mp.mpf(0), -z, y], [z, mp.mpf(0), -x], [-y, x, mp.mpf(0)]]
            twice, sine, rest = _product(cross, cross), mp.sin(angle), 1 - mp.cos(angle)
            turn = [[(r == c) + sine * cross[r][c] + rest * twice[r][c] for c in range(3)] for r in range(3)]
            found.append((_product(self.rotation[i], turn), self.place[i]))
        return found

    def torques(self, q: Any, qd: Any, qdd: Any, gravity: bool = True, poses: Any = None) -> list[Any]:
        """Inverse dynamics, with the rotors' inertia and without friction."""
        poses = poses or self.poses(q)
        qd, qdd, zero = _vector(qd), _vector(qdd), [mp.mpf(0)] * 3
        speed, change, pull = [], [], []
        for i, (turn, place) in enumerate(poses):
            back, parent = _transpose(turn), self.parents[i]
            w, dw = (speed[parent], change[parent]) if parent >= 0 else (zero, zero)
            a = pull[parent] if parent >= 0 else (_times(-1, self.gravity) if gravity else zero)
            a = _apply(back, _add(a, _cross(dw, place), _cross(w, _cross(w, place))))
            w, dw = _apply(back, w), _apply(back, dw)
            moved, faster = _times(qd[i], self.axis[i]), _times(qdd[i], self.axis[i])
            if self.slides[i]:
                a = _add(a, faster, _times(2, _cross(w, moved)))
            else:
                dw = _add(dw, faster, _cross(w, moved))
                w = _add(w, moved)
            speed.append(w), change.append(dw), pull.append(a)
        return self._inwards(poses, speed, change, pull, qdd)

    def _inwards(self, poses, speed, change, pull, qdd):
        force = [zero[:] for zero in [[mp.mpf(0)] * 3] * self.count]
        moment, found = [each[:] for each in force], [mp.mpf(0)] * self.count
        for i in reversed(range(self.count)):
            w, dw, a, h = speed[i], change[i], pull[i], self.first[i]
            own = _add(_times(self.mass[i], a), _cross(dw, h), _cross(w, _cross(w, h)))
            force[i] = _add(force[i], own)
            spin = _add(_apply(self.tensor[i], dw), _cross(w, _apply(self.tensor[i], w)), _cross(h, a))
            moment[i] = _add(moment[i], spin)
            acting = force[i] if self.slides[i] else moment[i]
            found[i] = _dot(self.axis[i], acting) + self.armature[i] * qdd[i]
            parent, (turn, place) = self.parents[i], poses[i]
            if parent >= 0:
                handed = _apply(turn, force[i])
                force[parent] = _add(force[parent], handed)
                moment[parent] = _add(moment[parent], _apply(turn, moment[i]), _cross(place, handed))
        return found

    def accelerations(self, q: Any, qd: Any, tau: Any) -> list[Any]:
        """Forward dynamics: the mass matrix column by column, and a solution by Gauss in fifty digits."""
        poses, zeros = self.poses(q), np.zeros(self.count)
        bias = self.torques(q, qd, zeros, poses=poses)
        matrix = mp.matrix(self.count, self.count)
        for k in range(self.count):
            column = self.torques(q, zeros, np.eye(self.count)[k], gravity=False, poses=poses)
            for i in range(self.count):
                matrix[i, k] = column[i]
        right = mp.matrix([wanted - given for wanted, given in zip(_vector(tau), bias, strict=True)])
        return list(mp.lu_solve(matrix, right))


def relative_error(found: Any, exact: list[Any]) -> float:
    """The largest error, as a share of the largest exact value."""
    found = _vector(found)
    worst = max(abs(a - b) for a, b in zip(found, exact, strict=True))
    return float(worst / max(abs(each) for each in exact))
