"""Fits of servo robots from goals and positions alone: known truth, a table that is touched, what cannot be known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffnea as dn
from diffnea.actuators import Coulomb, Coupling, Delay, Load, Offset, Servo, combine
from diffnea.contact import Table
from diffnea.identify.options import Options, ServoOptions
from diffnea.identify.problem.goals import are_goals
from diffnea.identify.problem.tracks import split
from diffnea.identify.problem.unknowns import unknowns
from diffnea.identify.servo.lanes import lanes
from diffnea.identify.servo.objective import LEAST_RMS, Objective
from diffnea.identify.servo.search import corrected
from diffnea.identify.servo.unknowns import freedom
from diffnea.models import Model

DT, STEP = 0.02, 1.53e-3  # of logs of such servos: seconds and encoder steps
ARM = """<mujoco><worldbody><body name="a" pos="0 0 0.3"><joint name="a" axis="0 1 0" armature="0.01"/>
  <inertial pos="0.1 0 0" mass="0.3" diaginertia="1e-4 4e-4 4e-4"/>
  <body name="b" pos="0.2 0 0"><joint name="b" axis="0 1 0" armature="0.01"/>
  <inertial pos="0.08 0 0.01" mass="0.2" diaginertia="5e-5 2e-4 2e-4"/></body></body></worldbody></mujoco>"""
TRUE = {"kp": np.array([12.0, 8.0]), "kd": np.array([0.6, 0.3]), "dry": np.array([0.12, 0.06]), "delay": [1.5, 2.2]}
FEW = Options(servo=ServoOptions(rough=2, fine=8))


@pytest.fixture(scope="module")
def robot(tmp_path_factory) -> dn.Robot:
    path = tmp_path_factory.mktemp("arm") / "arm.xml"
    path.write_text(ARM)
    return dn.load_robot(path)


def truth(robot: dn.Robot, table: Table | None = None) -> Model:
    parts = (
        Servo.of(TRUE["kp"], TRUE["kd"], steps=10),
        Coulomb.of(TRUE["dry"]),
        Load.of(np.full(2, 0.15), np.full(2, 0.1)),
    )
    return Model(robot, combine(*parts, Delay.of(np.array(TRUE["delay"]), 2)), table)


def goals(seed: int, rows: int = 1000) -> np.ndarray:
    """Sines with rests between them."""
    rng, time = np.random.default_rng(seed), np.arange(rows) * DT
    waves = sum(
        rng.uniform(0.1, 0.3, 2) * np.sin(2 * np.pi * f * time[:, None] + rng.uniform(0, 6, 2))
        for f in (0.1, 0.25, 0.6)
    )
    held = np.repeat(np.arange(rows) // 150 % 3 == 2, 1)
    last = np.maximum.accumulate(np.where(held, 0, np.arange(rows)))
    return waves[last]


def recording(model: Model, u: np.ndarray, name: str) -> dn.Recording:
    q = np.asarray(dn.rollout(model, u[0], np.zeros(2), u, DT).q)
    return dn.Recording(np.arange(len(u)) * DT, np.round(q / STEP) * STEP, u, joint_names=("a", "b"), name=name)


@pytest.fixture(scope="module")
def motions(robot) -> list[dn.Recording]:
    return [recording(truth(robot), goals(seed), f"motion {seed}") for seed in range(4)]


@pytest.fixture(scope="module")
def fit(robot, motions) -> dn.Fit:
    return dn.fit(robot, motions, actuator="servo+coulomb+load+delay", options=FEW)


def test_known_truth_is_found(fit, motions):
    """Nothing is differentiated, and encoders step by 1.5 mrad: stiffness by gravity, lag and delay, friction."""
    loop = fit.model.actuator.loop
    assert np.allclose(loop.stiffness, TRUE["kp"], rtol=0.08)
    late = np.asarray(fit.model.actuator.delay) * DT + np.asarray(loop.damping / loop.stiffness)
    assert np.allclose(late, np.array(TRUE["delay"]) * DT + TRUE["kd"] / TRUE["kp"], atol=4e-3)
    new = goals(9)
    clean = np.asarray(dn.rollout(truth(fit.robot), new[0], np.zeros(2), new, DT).q)
    predicted = np.asarray(dn.rollout(fit.model, new[0], np.zeros(2), new, DT).q)
    assert np.sqrt(np.mean((predicted - clean) ** 2)) < 2e-3
    assert np.sqrt(np.mean((new - clean) ** 2)) > 0.03
    assert fit.verdict == "accepted", fit.verdict.reasons


def test_what_loops_do_not_tell_is_said(fit):
    codes = {note.code for note in fit.notes}
    assert {"servo-loss", "servo-centres", "servo-lag"} <= codes
    assert "servo-table" not in codes


def test_it_is_saved_and_read(fit, tmp_path):
    fit.save(tmp_path / "out")
    again = dn.load_fit(tmp_path / "out")
    u = goals(3, 100)
    runs = [np.asarray(dn.rollout(each.model, u[0], np.zeros(2), u, DT).q) for each in (fit, again)]
    assert np.array_equal(*runs)


@pytest.mark.slow
def test_differentials_and_constant_torques_are_found(robot):
    """Friction of a motor that turns with both joints, and goals off by what a constant torque takes."""
    rows = ((1, 1), (1, -1))
    constant = eqx.tree_at(lambda each: each.constant, Offset.none(2, 0), jnp.array([0.3, -0.2]))
    late = Delay.of(np.array(TRUE["delay"]), 2)
    parts = Servo.of(TRUE["kp"], TRUE["kd"], steps=10), Coulomb.of(np.full(2, 0.03)), constant
    model = Model(robot, combine(*parts, Coupling.of(np.array([0.12, 0.0]), 0.0, rows, 0.05), late))
    found = dn.fit(
        robot,
        [recording(model, goals(seed), f"motion {seed}") for seed in range(4)],
        actuator="servo+coulomb+constant+differential+delay",
        options=FEW,
    )
    part = next(part for part in found.model.actuator.parts if isinstance(part, Coupling))
    assert float(part.dry[0]) == pytest.approx(0.12, abs=0.03)
    assert float(part.dry[1]) < 0.03
    new = goals(9)
    runs = [np.asarray(dn.rollout(each, new[0], np.zeros(2), new, DT).q) for each in (model, found.model)]
    assert np.sqrt(np.mean((runs[0] - runs[1]) ** 2)) < 2e-3


def test_goals_are_recognised(robot, motions):
    tracks = split(motions, None, ("a", "b"), 2, 0).fitted
    assert are_goals(tracks)
    torques = [dn.Recording(each.time, each.q, np.roll(each.u, 200, axis=0)) for each in motions]
    assert not are_goals(split(torques, None, ("a", "b"), 2, 0).fitted)


@pytest.mark.slow
def test_auto_takes_goals_for_goals(robot, motions):
    found = dn.fit(robot, motions, options=FEW)
    said = {note.code: str(note) for note in found.notes}
    assert "actuator servo+coulomb+load+delay;" in said["chosen-servo"]  # the rest explains nothing here
    assert found.model.actuator.loop is not None


@pytest.mark.slow
def test_a_table_is_found_and_said(robot):
    """Where the tip is stopped, gravity and friction are not bent to explain it."""
    table = Table(jnp.asarray(0.22), jnp.asarray(3e3), jnp.asarray([[0.16, 0.0, 0.02]]), (1,))
    touching = [recording(truth(robot, table), goals(seed), f"motion {seed}") for seed in range(4)]
    found = dn.fit(robot, touching, actuator="servo+coulomb+load+delay")
    assert "servo-table" in {note.code for note in found.notes}
    assert float(found.model.contact.height) == pytest.approx(0.22, abs=0.02)
    assert np.allclose(found.model.actuator.loop.stiffness, TRUE["kp"], rtol=0.15)


def test_lanes_predict_what_roll_outs_do(robot, motions):
    free = unknowns(robot, None, "servo+coulomb+load+delay", jax.random.key(0))
    freed = freedom(free)
    tracks = split(motions, None, ("a", "b"), 2, 0).fitted
    data = lanes(tracks, 8)
    objective = Objective(data, freed)
    found = objective.compared(freed.start[None])[0]
    model = freed.model(jnp.asarray(freed.start))
    for k, track in enumerate(tracks):
        q, u = track.from_start()
        assert np.allclose(q[: len(motions[k].q)], motions[k].q[: len(q)])
        left = np.asarray(dn.rollout(model, q[0], np.zeros(2), u, DT).q) - q
        assert np.allclose(found.rms[k], np.sqrt(np.mean(left**2, axis=0) + LEAST_RMS**2), rtol=1e-3)
        own = data.compared_motion == k
        rows = data.compared_rows[own] - np.flatnonzero(data.motion.ravel() == k)[0]
        assert np.allclose(found.errors[own], left[rows], atol=2e-5)


def test_slopes_that_steps_corrected_agree_with_them():
    """Broyden's update: what was seen along a step, unchanged across it."""
    rng = np.random.default_rng(0)
    slopes, shift = rng.normal(size=(4, 6, 2)).astype(np.float32), np.array([1.0, -2.0, 0.0, 0.5], np.float32)
    change, across = rng.normal(size=(6, 2)).astype(np.float32), np.array([2.0, 1.0, 7.0, 0.0], np.float32)
    before = np.tensordot(across, slopes, 1)
    corrected(slopes, shift, change)
    assert np.allclose(np.tensordot(shift, slopes, 1), change, atol=1e-5)
    assert np.allclose(np.tensordot(across, slopes, 1), before, atol=1e-5)


def test_loss_and_samples_that_cannot_be_are_refused(robot, motions):
    with pytest.raises(ValueError, match="servo"):
        dn.fit(robot, motions, actuator="servo+coulomb", loss="torque")
