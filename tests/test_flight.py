"""Flights of a body with rotors: thrust, drag and lag are found again, and the state ahead is foretold."""

import os
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import diffnea as dn
from diffnea.flight import Flight, Rotor
from diffnea.flight.rotations import rotated, rotated_back, turn_between, turned
from diffnea.identify.rotors.ahead import single, windows
from diffnea.identify.rotors.flights import flights_of

MJCF = """<mujoco model="drone"><worldbody><body name="frame" pos="0 0 1"><freejoint/>
<inertial pos="0 0 0" mass="0.03" diaginertia="2e-5 2e-5 3e-5"/></body></worldbody></mujoco>"""
LINEAR, QUADRATIC, DRAG, LAG, STEP = 1.8, 1.3, 0.4, 0.04, 0.01
DATA = Path(os.environ.get("DIFFNEA_DATA", "data")) / "nanobench_crazyflie"


def flown(seed, seconds=24.0, late=0.0):
    """A body that a controller leads along circles: attitudes follow, thrust and drag move it."""
    rng, fine = np.random.default_rng(seed), STEP / 5
    time = np.arange(0, seconds, fine)
    speed, size = rng.uniform(1.0, 2.0, 3), rng.uniform(0.05, 0.2, 3)
    lean = size * np.sin(np.outer(time, speed) + rng.uniform(0, 6, 3))
    attitude = turned(np.tile([1.0, 0, 0, 0], (len(time), 1)), lean)
    rates = turn_between(attitude[:-1], attitude[1:]) / fine
    rates = np.concatenate([rates, rates[-1:]])
    swing = 0.03 * np.sin(np.outer(time, rng.uniform(1, 4, 4)) + rng.uniform(0, 6, 4))
    command = np.clip(0.86 + swing, 0, 1)
    battery = 3.7 - 0.3 * time / seconds
    rotor = Rotor(*(jnp.asarray(x) for x in (LINEAR, QUADRATIC, 1.0, 3.55, LAG)))
    thrust = np.asarray(rotor.thrust(jnp.asarray(rotor.driven(time, command, battery))))
    thrust = thrust * 9.81 / thrust.mean() / np.cos(np.linalg.norm(lean, axis=1)).mean()
    p, v, rows = np.array([0, 0, 1.0]), np.zeros(3), []
    for k in range(len(time)):
        rows.append((p.copy(), v.copy()))
        turn = attitude[k]
        push = np.array([0, 0, thrust[k]]) - np.array([DRAG, DRAG, 0]) * rotated_back(turn, v)
        v = v + fine * (rotated(turn, push) + [-0.3 * p[0], -0.3 * p[1], -9.81 - 0.5 * (p[2] - 1)])
        p = p + fine * v
    position, velocity = map(np.array, zip(*rows, strict=True))
    at, board = time[::5], np.clip(np.round((time[::5] - late) / fine).astype(int), 0, len(time) - 1)
    base = dn.BaseMotion(
        position=position[::5],
        quaternion=attitude[::5],
        velocity=velocity[::5],
        accelerometer=np.zeros((len(at), 3)),
        gyroscope=rates[board] + 0.01 * rng.normal(size=(len(at), 3)),
        rotors=command[board],
        battery=battery[board],
    )
    return dn.Recording(at, np.zeros((len(at), 0)), base=base, name=f"flight {seed}")


@pytest.fixture(scope="module")
def drone(tmp_path_factory):
    path = tmp_path_factory.mktemp("drone") / "drone.xml"
    path.write_text(MJCF)
    return dn.load_robot(path)


@pytest.fixture(scope="module")
def fitted(drone):
    return dn.fit(drone, [flown(seed) for seed in range(4)])


def test_drag_is_found_and_the_state_is_foretold(fitted):
    told = {each.formula: each for each in fitted.identifiable}
    assert told["drag by mass, across the thrust"].value == pytest.approx(DRAG, abs=0.2)
    assert fitted.verdict == "accepted" and fitted.config["actuator"] == "rotor"
    ours, held = fitted.metrics.fit.error_joints[-1], fitted.metrics.start.error_joints[-1]
    assert ours[0] < 0.3 * held[0] and ours[2] < 0.5 * held[2]
    assert {each.code for each in fitted.unknown} >= {"flight-mass", "flight-inertia", "flight-lag"}


def test_nothing_after_the_start_of_a_window_is_seen(fitted):
    (flight,) = flights_of([flown(9, 6.0)])
    first, last = (each[-1:] for each in windows(flight, 0.5, 0.1))
    whole = fitted.model.after(flight, first, last, 2)
    blind = fitted.model.after(single(flight, int(first[0])), first, last, 2)
    for a, b in zip(whole, blind, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_streams_that_come_late_are_found_and_aligned():
    (flight,) = flights_of([flown(3, 12.0, late=0.04)])
    assert flight.late == pytest.approx(0.04, abs=0.011)
    assert abs(flight.aligned().late) <= 0.011


def test_a_flight_is_saved_and_read_back(fitted, tmp_path):
    saved = fitted.save(tmp_path)
    assert "fit.json" in saved.files and "identified.xml" not in saved.files
    back = dn.load_fit(tmp_path)
    (flight,) = flights_of([flown(9, 6.0)])
    first, last = windows(flight, 0.5, 0.1)
    for a, b in zip(back.model.after(flight, first, last, 2), fitted.model.after(flight, first, last, 2), strict=True):
        np.testing.assert_array_equal(a, b)


def test_accelerations_of_the_model_agree_with_its_forces(fitted):
    model = fitted.model
    q, qd = np.array([0, 0, 1, 1.0, 0, 0, 0]), np.array([1.0, 0, 0, 0, 0, 0])
    up = float(model.rotor.thrust(jnp.full(4, 0.86)))
    found = np.asarray(model(q, qd, np.full(4, 0.86)))
    assert found[2] == pytest.approx(up - 9.81, abs=1e-6)
    assert found[0] == pytest.approx(up * float(model.tilt[0]) - float(model.drag[0]), abs=1e-6)


def test_rotations_by_numpy():
    turn, v = turned(np.array([[1.0, 0, 0, 0]]), np.array([[0.0, 0, np.pi / 2]])), np.array([[1.0, 0, 0]])
    np.testing.assert_allclose(rotated(turn, v), [[0, 1, 0]], atol=1e-12)
    np.testing.assert_allclose(rotated_back(turn, rotated(turn, v)), v, atol=1e-12)
    np.testing.assert_allclose(turn_between(np.array([[1.0, 0, 0, 0]]), -turn), [[0, 0, np.pi / 2]], atol=1e-12)


def test_what_flights_cannot_be_is_refused(drone):
    whole = flown(0, 6.0)
    with pytest.raises(ValueError, match="actuator is auto or rotor"):
        dn.fit(drone, whole, actuator="motor")
    with pytest.raises(dn.RecordingError, match=r"base\.x … base\.qz and rotor\.1"):
        dn.fit(drone, whole.replace(base=dn.BaseMotion(rotors=whole.base.rotors)))
    ground = whole.base.replace(rotors=0 * whole.base.rotors)
    with pytest.raises(dn.RecordingError, match="rotors turning and off the ground"):
        dn.fit(drone, whole.replace(base=ground))


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="DIFFNEA_DATA has no nanobench_crazyflie")
def test_real_flights_half_a_second_ahead(drone):
    data = [dn.load_recording(path, drone) for path in sorted(DATA.glob("*.npz"))]
    found = []
    for rotation in range(3):
        train, test = [each for k, each in enumerate(data) if k % 3 != rotation], data[rotation::3]
        metrics = dn.fit(drone, train, test=test).metrics
        found.append(np.divide(metrics.fit.error_joints[-1], metrics.start.error_joints[-1]))
    assert np.all(np.mean(found, axis=0) <= [0.36, 0.45, 0.80, 0.88])


def test_flight_has_windows_only_where_it_flies():
    count = 200
    height = np.concatenate([np.zeros(100), np.ones(100)])
    flight = Flight(
        "f",
        0.01 * np.arange(count),
        np.column_stack([np.zeros((count, 2)), height]),
        np.zeros((count, 3)),
        np.tile([1.0, 0, 0, 0], (count, 1)),
        np.zeros((count, 3)),
        np.full((count, 4), 0.8),
        np.full(count, 3.7),
    )
    assert min(a for a, _ in flight.windows(0.5, 5)) >= 100
