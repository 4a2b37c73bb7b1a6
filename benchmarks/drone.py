"""Flights of a Crazyflie, half a second ahead: errors as shares of "velocity and attitude held", three rotations.

    DIFFNEA_DATA=… python benchmarks/drone.py PATH/cf2.xml

Data: NanoBench's flights (`nanobench_crazyflie/*.npz` in DIFFNEA_DATA). Every third flight is tested in turn; windows
begin every 0.25 s while the drone flies higher than 0.2 m. A predictor sees everything up to the start of a window and,
in it, rotor commands and battery. All settings come from the training flights. With DIFFNEA_TEST_DATA all flights there
are tested instead.
"""

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

import diffnea as dn
from diffnea.flight import Flight, Flyer
from diffnea.identify.rotors.ahead import FLIGHT_HORIZONS, STATE_KINDS, errors, held, single
from diffnea.identify.rotors.flights import flights_of

HORIZON, STRIDE, HEIGHT, TURNING = 0.5, 0.25, 0.2, 5000 / 65535


def windows(flight: Flight) -> list[tuple[int, int]]:
    """(first, last) samples of windows in which it flies."""
    good = (flight.position[:, 2] > HEIGHT) & (flight.rotors > TURNING).all(1)
    found, at = [], flight.time[0]
    while at + HORIZON <= flight.time[-1]:
        a, b = np.searchsorted(flight.time, (at, at + HORIZON))
        if good[a : b + 1].all() and b > a + 2:
            found.append((int(a), int(b)))
        at += STRIDE
    return found


def shares(model: Flyer, flights: Sequence[Flight]) -> tuple[np.ndarray, int]:
    """Mean errors by those of the guess; the predictor sees nothing of the state after a window's start."""
    ours, theirs = [], []
    for flight in flights:
        for first, last in windows(flight):
            a, b = np.array([first]), np.array([last])
            told = model.after(single(flight, first), a, b, FLIGHT_HORIZONS.index(HORIZON))
            ours.append(errors(told, flight, b)[0])
            theirs.append(errors(held(flight, a, b), flight, b)[0])
    return np.mean(ours, axis=0) / np.mean(theirs, axis=0), len(ours)


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    if len(sys.argv) != 2:
        raise SystemExit("drone: give the path of the drone's robot file, as cf2.xml")
    robot = dn.load_robot(sys.argv[1])
    data = loaded(Path(os.environ.get("DIFFNEA_DATA", "data")), robot)
    elsewhere = os.environ.get("DIFFNEA_TEST_DATA")
    splits = [([each for k, each in enumerate(data) if k % 3 != r], data[r::3]) for r in range(3)]
    splits = [(data, loaded(Path(elsewhere), robot))] if elsewhere else splits
    found = []
    for k, (train, test) in enumerate(splits):
        fit = dn.fit(robot, train, test=test)  # judged by the flights that are tested, fitted to all others
        assert isinstance(fit.model, Flyer)
        share, count = shares(fit.model, flights_of(test))
        found.append(share)
        print(f"rotation {k}: {count} windows, " + words(share), flush=True)
    print("mean: " + words(np.mean(found, axis=0)))


def loaded(folder: Path, robot: dn.Robot) -> list[dn.Recording]:
    paths = sorted((folder / "nanobench_crazyflie").glob("*.npz"))
    if not paths:
        raise SystemExit(f"drone: no flights in {folder / 'nanobench_crazyflie'}; set DIFFNEA_DATA")
    return [dn.load_recording(path, robot) for path in paths]


def words(share: np.ndarray) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in zip(STATE_KINDS, share, strict=True))


if __name__ == "__main__":
    main()
