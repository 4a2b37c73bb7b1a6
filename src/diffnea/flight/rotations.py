"""Rotations as unit quaternions (w, x, y, z), many at once, in numpy."""

import numpy as np
from jaxtyping import Float

_CONJUGATE = np.array([1.0, -1.0, -1.0, -1.0])


def rotated(turn: Float[np.ndarray, "*n 4"], v: Float[np.ndarray, "*m 3"]) -> Float[np.ndarray, "*k 3"]:
    """R v: `v + 2 u × (u × v + w v)`."""
    w, u = turn[..., :1], turn[..., 1:]
    return v + 2 * np.cross(u, np.cross(u, v) + w * v)


def rotated_back(turn: Float[np.ndarray, "*n 4"], v: Float[np.ndarray, "*m 3"]) -> Float[np.ndarray, "*k 3"]:
    """Rᵀ v."""
    return rotated(turn * _CONJUGATE, v)


def turn_between(a: Float[np.ndarray, "*n 4"], b: Float[np.ndarray, "*m 4"]) -> Float[np.ndarray, "*k 3"]:
    """The rotation vector of `a⁻¹ b`, in a's axes."""
    w = np.sum(a * b, axis=-1, keepdims=True)
    u = a[..., :1] * b[..., 1:] - b[..., :1] * a[..., 1:] - np.cross(a[..., 1:], b[..., 1:])
    u, w = np.where(w < 0, -u, u), np.abs(w)
    size = np.linalg.norm(u, axis=-1, keepdims=True)
    return 2 * np.arctan2(size, w) * u / np.maximum(size, 1e-12)


def turned(turn: Float[np.ndarray, "*n 4"], vector: Float[np.ndarray, "*n 3"]) -> Float[np.ndarray, "*n 4"]:
    """`q · exp(vector)`."""
    half = vector / 2
    size = np.linalg.norm(half, axis=-1, keepdims=True)
    u, w = np.sinc(size / np.pi) * half, np.cos(size)
    real = turn[..., :1] * w - np.sum(turn[..., 1:] * u, axis=-1, keepdims=True)
    return np.concatenate([real, turn[..., :1] * u + w * turn[..., 1:] + np.cross(turn[..., 1:], u)], axis=-1)
