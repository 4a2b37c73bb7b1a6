"""Fits of servo robots from goals and positions alone: known truth, a table that is touched, what cannot be known."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffnea as dn
from diffnea.actuators import Coulomb, Coupling, Delay, Limit, Load, Offset, Profile, Servo, Stribeck, combine
from diffnea.cli.words.results import known
from diffnea.contact import Table
from diffnea.excitation import design, expectation, foretold
from diffnea.identify.determine.uncertainty.covariance import noise, roughened, uncertainty
from diffnea.identify.options import Options, ServoOptions
from diffnea.identify.problem.measurements.goals import are_goals
from diffnea.identify.problem.measurements.tracks import split
from diffnea.identify.problem.unknowns import unknowns
from diffnea.identify.servo.finer import finer_errors
from diffnea.identify.servo.lanes import lanes
from diffnea.identify.servo.loop_unknowns import _share, freedom
from diffnea.identify.servo.plan import planned
from diffnea.identify.servo.reached import unreached
from diffnea.identify.servo.search.descent import Searched, corrected
from diffnea.identify.servo.search.objective import LEAST_RMS, Objective
from diffnea.identify.servo.search.release import released
from diffnea.identify.servo.search.rough import posed
from diffnea.identify.solve.regression.choice import Choice
from diffnea.models import Model
from diffnea.report.figures.servo_figures import LOADS, SPEEDS, friction_at
from diffnea.report.pages.fit_page import page

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
    table = known([each.to_dict() for each in fit.identifiable], codes=[each.code for each in fit.notes])
    assert table[0].startswith("with the file's masses the data determine")
    assert known([each.to_dict() for each in fit.identifiable])[0].startswith("the data determine")


def test_servos_of_joints_without_gravity_are_known_as_ratios(tmp_path):
    """Joint a turns about the vertical: nothing but the file's inertia would tell kp, so no interval of it is given."""
    path = tmp_path / "arm.xml"
    path.write_text(ARM.replace('name="a" axis="0 1 0"', 'name="a" axis="0 0 1"'))
    robot = dn.load_robot(path)
    logs = [recording(truth(robot), goals(seed), f"motion {seed}") for seed in range(3)]
    fit = dn.fit(robot, logs, actuator="servo+coulomb+load+delay", options=FEW)
    known = {each.formula: each for each in fit.identifiable}
    assert "servo stiffness kp(b)" in known and "servo stiffness kp(a)" not in known
    assert ("unknown-servo-scale", "a") in {(each.code, each.subject) for each in fit.unknown}
    lag = known["servo damping kd / servo stiffness kp(a)"]
    assert lag.unit == "N·m·s/rad / (N·m/rad)" and lag.lower < TRUE["kd"][0] / TRUE["kp"][0] < lag.upper
    assert lag.of(fit.model) == pytest.approx(lag.value)


def test_it_is_saved_and_read(fit, tmp_path):
    fit.save(tmp_path / "out")
    again = dn.load_fit(tmp_path / "out")
    u = goals(3, 100)
    runs = [np.asarray(dn.rollout(each.model, u[0], np.zeros(2), u, DT).q) for each in (fit, again)]
    assert np.array_equal(*runs)


def stepped(seed: int, rows: int = 600) -> np.ndarray:
    """Slow waves, and steps that a profile takes a while for."""
    far = np.random.default_rng(seed).uniform(-0.6, 0.6, (rows // 60, 2))
    return 0.5 * goals(seed, rows) + np.repeat(far, 60, axis=0)


@pytest.mark.slow
def test_both_numbers_of_a_profile_are_found(robot):
    """Steps of goals that firmware makes trapezoids of: without them delays and gains are wrong, and errors large."""
    speed, acceleration = np.array([2.0, 3.0]), np.array([15.0, 25.0])
    parts = Servo.of(TRUE["kp"], TRUE["kd"], steps=10), Coulomb.of(TRUE["dry"]), Profile.of(speed, acceleration)
    model = Model(robot, combine(*parts, Delay.of(np.array(TRUE["delay"]), 2)))
    motions = [recording(model, stepped(seed), f"motion {seed}") for seed in range(4)]
    found = dn.fit(robot, motions, actuator="servo+coulomb+profile+delay", options=FEW)
    profile = found.model.actuator.profile
    assert np.allclose(profile.speed, speed, rtol=0.02) and np.allclose(profile.acceleration, acceleration, rtol=0.05)
    new = stepped(9)
    runs = [np.asarray(dn.rollout(each, new[0], np.zeros(2), new, DT).q) for each in (model, found.model)]
    assert np.sqrt(np.mean((runs[0] - runs[1]) ** 2)) < 2e-3
    assert np.sqrt(np.mean((new - runs[0]) ** 2)) > 0.1
    assert not [note for note in found.notes if note.code == "servo-profile"]
    rows = {row.name: row for row in found.table}
    for name, true in (("a speed limit of goals", 2.0), ("b acceleration limit of goals", 25.0)):
        assert abs(rows[name].estimate - true) < 4 * rows[name].std < 0.2 * true
    told = [replace(each, input_kind="goal") for each in motions]  # steps are followed too late to be recognised
    said = [str(note) for note in dn.fit(robot, told, options=FEW).notes if note.code in ("chosen-servo", "told-servo")]
    assert "actuator servo+coulomb+load+delay+profile;" in said[0]


def test_limits_that_no_motion_reached_are_bounded_from_below(robot, motions):
    """Of a profile that goals never meet only a bound is known: the highest rate they had, and no more."""
    tracks = split(motions, None, ("a", "b"), 2, 0).fitted
    waves = 0.3 * np.sin(3 * DT * np.arange(1000)[:, None] + np.arange(2))
    tracks = [replace(track, u=waves[: len(track)]) for track in tracks]
    fast, slow = Profile.of(np.full(2, 30.0)), Profile.of(np.array([30.0, 0.3]))
    parts = _parts(4)
    said = unreached(Model(robot, combine(*parts, fast)), tracks)
    assert [(each.code, each.subject) for each in said] == [("servo-profile", "a"), ("servo-profile", "b")]
    highest = np.max([np.abs(np.diff(track.u, axis=0)).max(0) for track in tracks], axis=0) / DT
    bounds = np.array([each.values["least"] for each in said])
    assert np.all(bounds < 1.05 * highest) and np.all(bounds > 0.5 * highest)
    assert [each.subject for each in unreached(Model(robot, combine(*parts, slow)), tracks)] == ["a"]
    assert unreached(Model(robot, combine(*parts)), tracks) == []


def test_limits_that_motions_do_not_need_are_let_go(robot):
    """Of two limits the one that holds goals back stays, the other is raised: quicker motions must not meet it."""
    free, late = Servo.of(TRUE["kp"], TRUE["kd"]), Delay.of(np.array(TRUE["delay"]), 2)
    true = combine(free, Coulomb.of(TRUE["dry"]), Profile.of(np.array([0.5, 30.0])), late)
    tracks = split([recording(Model(robot, true), goals(k), f"{k}") for k in range(2)], None, ("a", "b"), 2, 0).fitted
    unknown = unknowns(
        robot, None, combine(free, Coulomb.of(TRUE["dry"]), Profile.of(np.array([0.5, 8.0])), late), jax.random.key(0)
    )
    objective = Objective(lanes(tracks, 8), freedom(unknown))
    here = objective.compared(objective.start[None])[0]
    found = released(objective, Searched(objective.start, here.loss, here.rms, (), True))
    speed = objective.free.model(jnp.asarray(found.theta)).actuator.profile.speed
    assert np.allclose(speed, [0.5, 4 * 8.0], rtol=1e-3)
    assert found.rms.mean() < 1.002 * here.rms.mean()


def test_what_is_known_of_a_servo_is_where_a_search_starts(robot, motions):
    """Regressions say where gains start, but not those that are given."""
    tracks = split(motions, None, ("a", "b"), 2, 0).fitted
    name = "servo+coulomb+profile+delay"
    free, given = (
        posed(unknowns(robot, None, name, jax.random.key(0), known=known), tracks, True)
        for known in ({}, {"kp": 9.0, "goal_speed": [2.0, 3.0]})
    )
    before, after = (each.model(jnp.asarray(each.start)).actuator for each in (free, given))
    assert np.allclose(after.loop.stiffness, 9.0) and np.allclose(after.profile.speed, [2.0, 3.0])
    assert not np.allclose(before.loop.stiffness, 9.0, rtol=0.05)
    assert np.allclose(after.profile.acceleration, before.profile.acceleration)
    assert len(free.start) - len(given.start) == 4


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


def test_finer_steps_keep_delays_and_rows(robot, motions):
    """Halved samples: the same motion but for what inner steps leave, row by row, delays and all."""
    tracks = split(motions, None, ("a", "b"), 2, 0).fitted
    data = lanes(tracks, 8)
    coarse, fine = (
        finer_errors(Model(robot, combine(*_parts(steps), Delay.of(np.array(TRUE["delay"]), 2))), tracks, data)
        for steps in (2, 16)
    )
    assert np.sqrt(np.mean(fine**2)) < 0.6 * STEP  # rounding of encoders, and what ten inner steps of the truth leave
    assert np.sqrt(np.mean((coarse - fine) ** 2)) < 0.5e-3
    assert np.abs(coarse - fine).max() > 1e-5


def _parts(steps: int) -> tuple:
    friction = Coulomb.of(TRUE["dry"]), Load.of(np.full(2, 0.15), np.full(2, 0.1))
    return Servo.of(TRUE["kp"], TRUE["kd"], steps=steps), *friction


def test_slopes_that_steps_corrected_agree_with_them():
    """Broyden's update: what was seen along a step, unchanged across it."""
    rng = np.random.default_rng(0)
    slopes, shift = rng.normal(size=(4, 6, 2)).astype(np.float32), np.array([1.0, -2.0, 0.0, 0.5], np.float32)
    change, across = rng.normal(size=(6, 2)).astype(np.float32), np.array([2.0, 1.0, 7.0, 0.0], np.float32)
    before = np.tensordot(across, slopes, 1)
    corrected(slopes, shift, change)
    assert np.allclose(np.tensordot(shift, slopes, 1), change, atol=1e-5)
    assert np.allclose(np.tensordot(across, slopes, 1), before, atol=1e-5)


PENDULUM = """<mujoco><worldbody><body name="p"><joint name="p" axis="0 1 0" armature="0.002"/>
  <inertial pos="0 0 -0.1" mass="0.5" diaginertia="1e-4 1e-4 1e-4"/></body></worldbody></mujoco>"""


@pytest.fixture(scope="module")
def set_to_gains(tmp_path_factory) -> tuple[dn.Robot, Model, list[dn.Recording]]:
    """A servo with a load, set to another gain in every run, and let go in the last."""
    path = tmp_path_factory.mktemp("pendulum") / "pendulum.xml"
    path.write_text(PENDULUM)
    robot, dt = dn.load_robot(path), 0.01
    servo = replace(Servo.of(np.array([0.8]), np.array([0.05]), steps=10), reference=(400.0,))
    friction = Stribeck.of(np.array([0.03]), np.array([0.025]), np.array([0.004]), 100.0)
    model = Model(robot, combine(servo, friction, Limit.of(0.45, 20.0, 1), Delay.of(np.array([0.6]), 1)))
    time, runs = np.arange(500) * dt, []
    for k, gain in enumerate((100.0, 800.0, 400.0, 200.0)):
        u = 1.2 * np.sin(time * (2 + k))[:, None] + 0.4 * np.sin(time * 5)[:, None]
        set_to = np.full_like(u, gain)
        set_to[300:] = 0.0 if k == 2 else gain
        q = np.asarray(dn.rollout(model, np.zeros(1), np.zeros(1), u, dt, gain=set_to).q)
        told = {"joint_names": ("p",), "name": f"run {k}", "input_kind": "goal", "gain": set_to}
        runs.append(dn.Recording(time, np.round(q / STEP) * STEP, u, **told))
    return robot, model, runs


@pytest.mark.slow
def test_gains_that_recordings_say_are_one_factor(set_to_gains, tmp_path):
    """Goals are not followed at low gains; stiffness and the most torque come out all the same."""
    robot, truth, runs = set_to_gains
    fit = dn.fit(robot, runs[:3], test=runs[3:], actuator="servo+stribeck+limit+delay", options=FEW)
    assert {"servo-gains", "servo-coasting"} <= {note.code for note in fit.notes}
    # Only beside gravity, whose own size is the file's.
    scale = [float(dn.gravity_torque(each.robot, np.ones(1))[0]) for each in (fit.model, truth)]
    loop, wanted = (each.actuator.at_gain(np.array([400.0])).loop for each in (fit.model, truth))
    assert float(loop.stiffness[0]) / scale[0] == pytest.approx(float(wanted.stiffness[0]) / scale[1], rel=0.05)
    # At the speeds of these motions, a higher limit of a motor that runs out sooner is nearly the same.
    assert float(loop.limit[0]) / scale[0] == pytest.approx(float(wanted.limit[0]) / scale[1], rel=0.2)
    last, start = runs[3], np.zeros(1)
    told, untold = (
        np.asarray(dn.rollout(fit.model, start, start, last.u, last.dt, gain=gain).q) for gain in (last.gain, None)
    )
    off = [float(np.sqrt(np.mean((q - last.q) ** 2))) for q in (told, untold)]
    assert off[0] < 5e-3 < 0.1 < off[1]
    # What is judged knows of the gains, too.
    assert fit.metrics["error"][-1] < 0.05
    fit.save(tmp_path / "out")
    again = dn.load_fit(tmp_path / "out")
    assert np.array_equal(again.held_out.tracks[0].gain[:, 0], np.full(len(again.held_out.tracks[0]), 200.0))
    assert np.array_equal(np.asarray(dn.rollout(again.model, start, start, last.u, last.dt, gain=last.gain).q), told)


def test_gains_of_some_recordings_alone_are_refused(set_to_gains):
    robot, _, runs = set_to_gains
    with pytest.raises(dn.RecordingError, match="run 1 has no gain"):
        dn.fit(robot, [runs[0], runs[1].replace(gain=None)], actuator="servo+coulomb")
    with pytest.raises(dn.RecordingError, match="goals"):
        runs[0].replace(input_kind="command")


def test_coefficients_that_end_at_zero_still_have_a_step():
    """log(1 + eˣ) is 0 in double precision below x = −745; a share of it is a step of x all the same."""
    steps = _share(np.array([-900.0, -30.0, 0.0, 20.0]), 0.1)
    assert np.allclose(steps[:2], 0.1) and np.all(np.isfinite(steps))


def test_the_page_shows_goals_tracking_errors_and_friction_over_load(fit):
    text = page(fit)
    assert "if the masses of the robot file are right" in text
    assert 'id="goals"' in text and "mrad off its goals" in text
    assert text.count('class="cell"') == 2 * SPEEDS * LOADS
    speeds, loads = np.array([-1.0, -1e-3, 1e-3, 1.0]), np.array([-0.5, 0.0, 0.5])
    found = friction_at(fit.model, np.zeros(2), 0, speeds, loads)
    assert np.allclose(found[1], found[1, 0])  # without a load, Coulomb's and what it asks of the gear
    assert np.all(found[[0, 2]] > found[1] + 0.05)


def test_check_foretells_what_loops_tell_and_which_experiment_would_tell_more(robot, motions):
    choice, told = foretold(robot, motions, None, "servo+coulomb+load+delay")
    assert {"servo-centres", "servo-lag"} <= {note.code for note in choice.notes}
    assert any("torque off" in str(note) for note in choice.notes)
    found = {each.formula: each for each in told.combinations}
    kp = found["servo stiffness kp(a)"]
    assert kp.lower < TRUE["kp"][0] < kp.upper and kp.value == pytest.approx(TRUE["kp"][0], rel=0.3)


@pytest.mark.slow
def test_excite_plans_goals_within_the_limits(robot, motions):
    ends = {"lower": -1.0, "upper": 1.2, "velocity": 3.0, "effort": 2.0}
    limited = replace(robot, limits=type(robot.limits)(**{key: jnp.full(2, value) for key, value in ends.items()}))
    task = {"actuator": "servo+coulomb+load+delay", "seed": 0}
    found = design(limited, seconds=4.0, rate=1 / DT, **task).recording
    assert found.input_kind == "goal"
    assert found.u.min() >= -1.0 and found.u.max() <= 1.2
    model = Model(limited, dn.actuators.for_robot(task["actuator"], limited))
    prompt = Model(limited, combine(*(part for part in model.actuator.parts if not isinstance(part, Delay))))
    came = np.asarray(dn.rollout(prompt, found.q[0], found.qd[0], found.u, DT).q)
    assert np.sqrt(np.mean((came - found.q) ** 2)) < 0.2 * np.sqrt(np.mean((found.u - found.q) ** 2)) + 5e-3
    before = expectation(limited, found, **task)
    assert before.before is None and before.after.rank > 4
    both = expectation(limited, found, motions, **task)
    assert both.before is not None and both.after.rank >= both.before.rank


def test_armatures_are_learned_where_the_file_has_none(robot, motions):
    parts = split(motions, None, ("a", "b"), 2, 0)
    asked = Choice("servo+coulomb", "trajectory", None)

    def learned(given: dn.Robot, choice: Choice) -> tuple[tuple[str, ...] | None, set[str]]:
        found = planned(given, parts, choice, lambda *_: pytest.fail("nothing is left to choose"), ServoOptions())
        return found.learn, {note.code for note in found.notes}

    bare = replace(robot, armature=0 * robot.armature)
    assert learned(bare, asked) == (("inertia", "armature", "actuator"), {"servo-rotors"})
    assert learned(robot, asked) == (None, set())
    assert learned(bare, replace(asked, learn=("actuator",))) == (("actuator",), set())


def test_errors_that_last_for_a_motion_widen_intervals():
    """A slope that differs from motion to motion: residuals look white within each, and motions left out tell."""
    rng = np.random.default_rng(0)
    motion, sample = np.repeat(np.arange(8), 200), np.tile(np.arange(200), 8)
    x = rng.standard_normal(len(motion))
    wrong = 0.1 * rng.standard_normal(8)[motion]
    same, theirs = (each + 0.05 * rng.standard_normal(len(x)) for each in (np.zeros(len(x)), wrong * x))
    spread = {}
    for name, left in (("same", same), ("theirs", theirs - x * (x @ theirs) / (x @ x))):
        places = np.zeros(len(x), int), sample, motion
        told = uncertainty(x[:, None], left, *places, noise(left, *places, 1, True), True)
        spread[name] = [float(each.std(np.eye(1))[0]) for each in (told, roughened(told, x[:, None], left, motion))]
    assert spread["same"][1] < 2 * spread["same"][0]
    assert spread["theirs"][1] > 0.1 / np.sqrt(8) * 0.7  # what eight slopes of that spread leave open
    assert spread["theirs"][1] > 1.1 * spread["theirs"][0]


def test_loss_and_samples_that_cannot_be_are_refused(robot, motions):
    with pytest.raises(ValueError, match="servo"):
        dn.fit(robot, motions, actuator="servo+coulomb", loss="torque")
