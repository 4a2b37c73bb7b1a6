"""What physics leave of the state ahead, regressed on past and commands; strengths by leaving flights out."""

from collections.abc import Sequence
from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from diffnea.flight import Ahead, Flight, Flyer
from diffnea.flight.model import State
from diffnea.flight.rotations import rotated_back, turn_between

# Seconds ahead, and between the windows that are learned from.
FLIGHT_HORIZONS, EVERY = (0.1, 0.2, 0.5), 0.05
# Strengths of the ridge that are tried, features having a standard deviation of one.
STRENGTHS = np.logspace(0.5, 5, 10)
STATE_KINDS = ("position", "velocity", "attitude", "rates")


def learned(flyer: Flyer, flights: Sequence[Flight]) -> Flyer:
    """With a regression for each horizon, its strengths chosen by predicting each flight from the others."""
    found = [_horizon(flyer, flights, seconds) for seconds in FLIGHT_HORIZONS]
    centre, scale = found[0][:2]
    weight, offset = [], []
    for own_centre, own_scale, own_weight, own_offset in found:  # one centre and scale for all
        moved = own_weight / own_scale[:, None]
        weight.append(scale[:, None] * moved)
        offset.append(own_offset + (centre - own_centre) @ moved)
    arrays = [jnp.asarray(x) for x in (centre, scale, np.stack(weight), np.stack(offset))]
    found_ahead = Ahead(arrays[0], arrays[1], arrays[2], arrays[3], FLIGHT_HORIZONS)
    return eqx.tree_at(lambda f: f.ahead, flyer, found_ahead, is_leaf=lambda x: x is None)


def _horizon(flyer: Flyer, flights: Sequence[Flight], seconds: float) -> tuple[np.ndarray, ...]:
    rows, left, group = [], [], []
    for k, flight in enumerate(flights):
        first, last = windows(flight, seconds, EVERY)
        if len(first):
            rows.append(flyer.rows(flight, first, last))
            left.append(missed(flyer, flight, first, last))
            group.append(np.full(len(first), k))
    X, Y, of = np.concatenate(rows), np.concatenate(left), np.concatenate(group)
    centre, scale = X.mean(0), X.std(0) + 1e-9
    offset = Y.mean(0)
    return centre, scale, _ridge((X - centre) / scale, Y - offset, of), offset


def windows(flight: Flight, horizon: float, seconds: float) -> tuple[Int[np.ndarray, " w"], Int[np.ndarray, " w"]]:
    """First and last samples of windows, so many seconds apart."""
    every = max(1, round(seconds / float(np.median(flight.steps))))
    pairs = np.array(flight.windows(horizon, every), int).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def missed(flyer: Flyer, flight: Flight, first: np.ndarray, last: np.ndarray) -> Float[np.ndarray, "w 12"]:
    """What physics alone leave, in the body's axes at the start."""
    told = flyer.after(flight, first, last)
    turn = flight.attitude[first]
    return np.concatenate(
        [
            rotated_back(turn, flight.position[last] - told.position),
            rotated_back(turn, flight.velocity[last] - told.velocity),
            turn_between(turn, flight.attitude[last]),
            flight.rates[last],
        ],
        axis=1,
    )


def _ridge(X: np.ndarray, Y: np.ndarray, of: np.ndarray) -> Float[np.ndarray, "f 12"]:
    """Each kind of target with the strength that predicts flights left out best; the usual one of a single flight."""
    groups = np.unique(of)
    parts = [(X[of == k].T @ X[of == k], X[of == k].T @ Y[of == k]) for k in groups]
    total, wanted = (np.sum(each, axis=0) for each in zip(*parts, strict=True))
    one, errors = np.eye(X.shape[1]), np.zeros((len(STRENGTHS), len(STATE_KINDS)))
    for i, strength in enumerate(STRENGTHS):
        for k, (gram, product) in zip(groups, parts, strict=True) if len(groups) > 1 else ():
            wrong = Y[of == k] - X[of == k] @ np.linalg.solve(total - gram + strength * one, wanted - product)
            errors[i] += np.linalg.norm(wrong.reshape(len(wrong), len(STATE_KINDS), 3), axis=2).sum(0)
    chosen = STRENGTHS[np.argmin(errors, axis=0)] if len(groups) > 1 else np.full(len(STATE_KINDS), 100.0)
    weight = [
        np.linalg.solve(total + strength * one, wanted[:, 3 * k : 3 * k + 3]) for k, strength in enumerate(chosen)
    ]
    return np.concatenate(weight, axis=1)


def errors(told: State, flight: Flight, last: Int[np.ndarray, " w"]) -> Float[np.ndarray, "w 4"]:
    """Norms of what is wrong with position, velocity, attitude and rates."""
    truth = flight.position[last], flight.velocity[last], flight.rates[last]
    turn = turn_between(told.attitude, flight.attitude[last])
    wrong = told.position - truth[0], told.velocity - truth[1], turn, told.rates - truth[2]
    return np.stack([np.linalg.norm(each, axis=1) for each in wrong], axis=1)


def held(flight: Flight, first: np.ndarray, last: np.ndarray) -> State:
    """The guess without a model: velocity and attitude stay as they are, rates are none."""
    length = (flight.time[last] - flight.time[first])[:, None]
    place = flight.position[first] + length * flight.velocity[first]
    return State(place, flight.velocity[first], flight.attitude[first], np.zeros((len(first), 3)))


def single(flight: Flight, seen: int) -> Flight:
    """The flight as a predictor may see it: nothing but rotors and battery after a sample."""
    later = (np.arange(len(flight)) > seen)[:, None]
    hidden = {
        key: np.where(later, np.nan, getattr(flight, key)) for key in ("position", "velocity", "attitude", "rates")
    }
    return replace(flight, **hidden)
