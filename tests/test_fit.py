"""`fit`: exact recovery, verdicts that are never dressed up, held-out data, files and messages."""

import json
from dataclasses import replace
from importlib.metadata import files
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffnea import load_robot, systems
from diffnea.actuators import Viscous, for_robot
from diffnea.batches import inverse_dynamics, mass_matrix
from diffnea.identify import Fit, FitFileError, fit, load_fit
from diffnea.identify.options import JudgeOptions, Options
from diffnea.models import FeedForward, Model
from diffnea.parameters import encode, learnable, pack, physical_values, unpack
from diffnea.recordings import Recording, RecordingError, Samples
from diffnea.robot import astype
from diffnea.simulate import rollout

# A fit of exact data ends at rounding: residuals of 1e-12 of the accelerations' spread.
EXACT = 1e-20
# What might be wrong with data that are not accepted is looked for in test_identify_hints.py.
WITHOUT_HINTS = Options(judge=JudgeOptions(hint_below=0.0))
SYSTEMS = {"cartpole": systems.cartpole(), "furuta": systems.furuta()}


def uniform(system, actuator, count=300, seed=0):
    """Exact samples, drawn evenly from where the system works."""
    rng = np.random.default_rng(seed)
    low, high = np.asarray(system.limits.lower), np.asarray(system.limits.upper)
    q = rng.uniform(low, high, (count, 2))
    qd = rng.uniform(-1, 1, (count, 2)) * np.asarray(system.limits.velocity)
    u = rng.uniform(-1, 1, (count, 2)) * np.asarray(system.limits.effort)
    model = Model(system.robot, actuator)
    return Samples(q=q, qd=qd, u=u, qdd=np.asarray(model(q, qd, u)), joint_names=system.robot.joint_names)


def off_by(robot, share, seed=0):
    """The robot with its inertias off: a nominal robot as one has it."""
    virtual = encode(robot)
    masks = learnable(virtual, ("inertia",))
    vector = pack(virtual, masks)
    noise = np.random.default_rng(seed).standard_normal(len(vector)) * share
    scale = np.tile([1.0] * 4 + [float(virtual.length_scale)] * 6, robot.num_joints)
    return unpack(virtual, masks, vector + jnp.asarray(noise * scale)).robot()


def learned(found: Fit, consistent: bool = False) -> Any:
    """A robot with an actuator: the model of a fit, or the nearest one whose links are bodies."""
    model = found.consistent if consistent else found.model
    assert isinstance(model, Model)
    return model


def viscous(system):
    return Viscous.of(np.asarray(system.robot.damping))


def swing(system, seconds=12.0, noise=0.0, seed=0, start=(0.0, 0.3)):
    """A simulated swing-up with viscous friction; positions only."""
    count = round(seconds / system.dt)
    model = Model(system.robot, viscous(system))
    run = rollout(model, jnp.asarray(start), jnp.zeros(2), system.swing_up, system.dt, steps=count)
    q = np.asarray(run.q) + noise * np.random.default_rng(seed).standard_normal((count, 2))
    return Recording(time=np.asarray(run.time), q=q, u=np.asarray(run.u), joint_names=system.robot.joint_names)


@pytest.fixture(scope="module")
def recordings():
    return [swing(SYSTEMS["furuta"], noise=1e-3, seed=k, start=(0.1 * k, 0.3 + 0.2 * k)) for k in range(3)]


@pytest.fixture(scope="module")
def fitted(recordings):
    system = SYSTEMS["furuta"]
    return fit(off_by(system.robot, 0.3), recordings, actuator="viscous")


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("learn", [("inertia",), ("inertia", "kinematics")])
def test_random_starts_find_exact_data(name, learn):
    system = SYSTEMS[name]
    found = fit(system.robot, uniform(system, viscous(system)), learn=learn, actuator="viscous", start="random")
    assert found.metrics["nmse"] < EXACT
    np.testing.assert_allclose(learned(found).actuator.viscous, system.robot.damping, rtol=1e-6)


def test_a_better_model_is_accepted_and_beats_the_start(fitted):
    assert fitted.verdict == "accepted", fitted.verdict.reasons
    assert fitted.metrics.fit.error[1] < 0.5 * fitted.metrics.start.error[1]
    assert fitted.metrics.fit.horizons == (0.1, 0.5, 1.0, 2.0)
    assert any("estimated from positions" in str(note) for note in fitted.notes)


def test_positions_alone_tell_the_truth_and_how_sure_it_is(fitted):
    """Smoothed states beside the raw command put the mass matrix off by 9 % and the pendulum's friction by more."""
    system = SYSTEMS["furuta"]
    q, true = jnp.asarray([0.0, 0.5]), Model(system.robot, viscous(system))
    np.testing.assert_allclose(mass_matrix(fitted.robot, q), mass_matrix(system.robot, q), rtol=0.02)
    np.testing.assert_allclose(fitted.model.actuator.viscous, system.robot.damping, rtol=0.05)
    sums = [each for each in fitted.identifiable if each.base or each.kind == "actuator"]
    held = [each.lower <= each.of(true) <= each.upper for each in sums]
    assert len(held) == 10 and sum(held) >= 8


def arm_samples(robot, friction, count=400):
    """Six joints along sums of sines; accelerations with noise of 2 %."""
    rng, pace = np.random.default_rng(0), 0.2 * np.pi * np.arange(1, 6)
    phase, rate = np.linspace(0, 10, count)[:, None] * pace, pace[:, None]
    a, b = rng.normal(size=(2, 5, 6)) / np.arange(1, 6)[:, None]
    s, c = np.sin(phase), np.cos(phase)
    q, qd, qdd = s @ a + c @ b, c @ (rate * a) - s @ (rate * b), -s @ (rate**2 * a) - c @ (rate**2 * b)
    u = np.asarray(inverse_dynamics(robot, q, qd, qdd)) + friction * qd
    return Samples(q=q, qd=qd, u=u, qdd=qdd + 0.02 * qdd.std(0) * rng.normal(size=qdd.shape))


def test_the_accelerations_of_an_arm_are_fitted_by_way_of_its_torques():
    """From 20 % off the acceleration loss of a UR5 by itself ends at 0.3, in another minimum; noise leaves 0.0004."""
    path = next(str(file.locate()) for file in files("example-robot-data") or () if file.name == "ur5_robot.urdf")
    robot = load_robot(path)
    start = replace(robot, inertia=jax.tree.map(lambda x: 0.8 * x, robot.inertia))
    data = arm_samples(robot, np.array([8.0, 8.0, 5.0, 1.0, 1.0, 0.5]))
    found = fit(start, data, actuator="viscous", method="lm")
    assert found.metrics["nmse"] < 5e-4


@pytest.mark.slow
def test_trajectories_bring_what_derivatives_lose(recordings):
    system = SYSTEMS["furuta"]
    losses = "trajectory", "acceleration"
    found, derived = (fit(off_by(system.robot, 0.3), recordings, actuator="viscous", loss=loss) for loss in losses)
    assert found.verdict == "accepted", found.verdict.reasons
    assert found.metrics.fit.error[2] < derived.metrics.fit.error[2]  # not by much: starts are noisy for the truth too
    q = jnp.asarray([0.0, 0.5])
    np.testing.assert_allclose(mass_matrix(found.robot, q), mass_matrix(system.robot, q), rtol=0.02)
    np.testing.assert_allclose(learned(found).actuator.viscous, system.robot.damping, rtol=0.1)
    row = found.table[f"{system.robot.joint_names[1]} viscous friction"]
    assert row.identifiable and row.std is not None and 0 < row.std < 0.1 * row.estimate
    with pytest.raises(ValueError, match="trajectory needs recordings"):
        fit(system.robot, uniform(system, None, count=60), loss="trajectory")


def test_what_is_not_determined_stays_where_it_was():
    system = SYSTEMS["cartpole"]
    start = off_by(system.robot, 0.2)
    found = fit(start, uniform(system, None), learn=("inertia",), actuator="ideal", loss="acceleration")
    assert found.metrics["nmse"] < EXACT and found.verdict == "accepted"
    before, after = (np.asarray(physical_values(each))[1:10] for each in (start, found.robot))
    # Nothing of these samples depends on the cart's inertia and centre of mass: only its mass may change.
    np.testing.assert_allclose(after, before, atol=1e-6)
    total = np.sum(np.asarray(found.robot.inertia.mass))
    np.testing.assert_allclose(total, np.sum(np.asarray(system.robot.inertia.mass)), rtol=1e-9)


def test_the_truth_is_not_made_better():
    system = SYSTEMS["cartpole"]
    found = fit(system.robot, uniform(system, None), learn=("inertia",), actuator="ideal", loss="acceleration")
    assert found.verdict == "no better than the start"
    assert "nMSE" in " ".join(found.verdict.reasons)


def test_noise_is_never_accepted():
    system = SYSTEMS["cartpole"]
    rng = np.random.default_rng(0)
    time = np.arange(2000) * system.dt
    q, u = rng.standard_normal((2000, 2)), np.column_stack([rng.standard_normal(2000), np.zeros(2000)])
    noise = Recording(time=time, q=q, u=u)
    found = fit(off_by(system.robot, 0.3), noise, actuator="viscous", options=WITHOUT_HINTS)
    assert found.verdict != "accepted"
    shuffled = uniform(system, None)
    wrong = Samples(q=shuffled.q, qd=shuffled.qd, qdd=rng.permutation(shuffled.qdd), u=shuffled.u)
    found = fit(off_by(system.robot, 0.3), wrong, options=WITHOUT_HINTS)
    assert found.verdict == "failed" and "explained" in found.verdict.reasons[0]


def test_constant_data_fail_with_the_reason():
    system = SYSTEMS["cartpole"]
    zeros = np.zeros((400, 2))
    found = fit(system.robot, Recording(time=np.arange(400) * system.dt, q=zeros + 0.1, u=zeros, qd=zeros, qdd=zeros))
    assert found.verdict == "failed" and "nothing moves" in found.verdict.reasons[0]


def test_another_robots_data_are_not_accepted(recordings):
    other = SYSTEMS["cartpole"].robot
    data = [Recording(time=each.time, q=each.q, u=each.u) for each in recordings]
    found = fit(other, data, actuator="viscous", options=WITHOUT_HINTS)
    assert found.verdict != "accepted", found.verdict.reasons


def test_too_few_samples_fail_with_the_number_needed():
    system = SYSTEMS["cartpole"]
    found = fit(system.robot, uniform(system, None, count=12), actuator="ideal")
    assert found.verdict == "failed" and "too few samples: 10 for 20 numbers; give at least 20" in found.verdict.reasons


def test_a_loss_that_is_nowhere_finite_keeps_the_start():
    system = SYSTEMS["cartpole"]
    given = uniform(system, None)
    broken = Samples(q=given.q, qd=given.qd * 1e200, qdd=given.qdd, u=given.u)
    found = fit(system.robot, broken)
    assert found.verdict == "failed" and "not finite" in found.verdict.reasons[0]
    np.testing.assert_allclose(found.robot.inertia.mass, system.robot.inertia.mass, rtol=1e-12)


def test_adam_lm_and_torque_come_near():
    system = SYSTEMS["cartpole"]
    data, start = uniform(system, viscous(system)), off_by(system.robot, 0.2)
    by_adam = fit(start, data, actuator="viscous", method="adam", steps=600)
    assert by_adam.metrics["nmse"] < 0.5 * (by_adam.metrics.start.nmse or 0.0)
    for loss in ("acceleration", "torque"):
        by_lm = fit(start, data, actuator="viscous", method="lm", loss=loss)
        assert by_lm.metrics["nmse"] < EXACT


def test_regression_finds_exact_data_and_a_consistent_robot():
    system = SYSTEMS["furuta"]
    found = fit(off_by(system.robot, 0.2), uniform(system, viscous(system)), actuator="viscous", method="linear")
    assert found.metrics["nmse"] < EXACT and found.verdict == "accepted"
    np.testing.assert_allclose(learned(found).actuator.viscous, system.robot.damping, rtol=1e-8)
    encode(learned(found, consistent=True).robot)  # raises where a link is no body
    assert len([each for each in found.identifiable if each.kind == "inertia" and each.base]) <= 8
    with pytest.raises(ValueError, match="leave kinematics"):
        fit(system.robot, uniform(system, None), learn=("inertia", "kinematics"), method="linear")


def test_outliers_are_weighted_down():
    system = SYSTEMS["cartpole"]
    given, rng = uniform(system, None), np.random.default_rng(1)
    qdd = given.qdd + 1e-3 * given.qdd.std(0) * rng.standard_normal(given.qdd.shape)
    qdd[::10] += 10 * qdd.std(0)
    data, truth = Samples(q=given.q, qd=given.qd, qdd=qdd, u=given.u), given
    errors = []
    for robust in (False, True):
        model = fit(off_by(system.robot, 0.2), data, robust=robust).model
        errors.append(np.mean(np.square(model(truth.q, truth.qd, truth.u) - truth.qdd) / truth.qdd.var(0)))
    assert errors[1] < 0.05 * errors[0]


def test_a_network_is_learned_by_the_same_call():
    given = uniform(SYSTEMS["cartpole"], None)
    network = FeedForward.for_samples(
        given.q, given.qd, given.u, given.qdd, jax.random.key(0), wraps=(False, True), width=8
    )
    found = fit(network, given, steps=300, method="adam")
    assert found.metrics["nmse"] < 0.7 * (found.metrics.start.nmse or 0.0)
    assert len(found.table) == 0 and found.unknown[0].code == "unknown-any-network"


@pytest.mark.slow
@pytest.mark.parametrize("positions_only", [False, True])
def test_a_command_that_comes_late_is_seen(positions_only):
    system = SYSTEMS["cartpole"]
    late = for_robot("delay+viscous", system.robot)
    rng, count = np.random.default_rng(0), 2500
    u = np.zeros((count, 2))
    u[:, 0] = 3 * np.repeat(rng.standard_normal(count // 10), 10)
    shifted = np.concatenate([np.zeros((3, 2)), u[:-3]])
    model = Model(system.robot, viscous(system))
    run = rollout(model, jnp.asarray([0.0, 0.5]), jnp.zeros(2), shifted, system.dt)
    qdd = model(run.q, run.qd, shifted)
    data = Recording(time=np.asarray(run.time), q=run.q, u=u, qd=run.qd, qdd=qdd)
    if positions_only:
        read = np.asarray(run.q) + np.asarray(system.sensors.position_noise) * rng.standard_normal((count, 2))
        data = Recording(time=np.asarray(run.time), q=read, u=u)
    found = fit(off_by(system.robot, 0.2), data, actuator=late, learn=("inertia", "actuator"))
    np.testing.assert_allclose(learned(found).actuator.delay, 3.0, atol=0.02)
    assert found.verdict == "accepted", found.verdict.reasons


def test_files_give_the_same_bits(fitted, recordings, tmp_path):
    fitted.save(tmp_path / "out")
    again = load_fit(tmp_path / "out")
    q, qd, u = recordings[0].q, np.gradient(recordings[0].q, axis=0), recordings[0].u
    assert np.array_equal(fitted.model(q, qd, u), again.model(q, qd, u))
    assert again.verdict == fitted.verdict and again.verdict.reasons == fitted.verdict.reasons
    assert again.verdict.codes == fitted.verdict.codes
    assert again.table == fitted.table and again.metrics == fitted.metrics
    assert again.identifiable == fitted.identifiable and again.unknown == fitted.unknown
    assert again.config == fitted.config and again.robot.joint_names == fitted.robot.joint_names
    assert {"fit.json", "weights.npz", "identified.urdf", "identified.xml"} <= {
        p.name for p in (tmp_path / "out").iterdir()
    }
    again.save(tmp_path / "twice")
    assert (tmp_path / "twice" / "fit.json").read_bytes() == (tmp_path / "out" / "fit.json").read_bytes()


def test_folders_older_than_some_fields_of_a_robot_are_read(fitted, tmp_path):
    fitted.save(tmp_path)
    content = json.loads((tmp_path / "fit.json").read_text())
    fields = content["model"]["fields"]["robot"]["fields"]
    for name in ("couplings", "springs", "tendons", "lift", "loops"):
        assert fields.pop(name, 0) is None
    (tmp_path / "fit.json").write_text(json.dumps(content))
    again = load_fit(tmp_path)
    assert again.robot.springs is None and again.robot.joint_names == fitted.robot.joint_names
    del fields["armature"]  # without a default: the folder is damaged
    (tmp_path / "fit.json").write_text(json.dumps(content))
    with pytest.raises(FitFileError, match='part "Robot" has fields'):
        load_fit(tmp_path)


def test_files_that_are_no_fit_are_refused_in_one_line(fitted, tmp_path):
    with pytest.raises(FitFileError, match="fit.json: No such file"):
        load_fit(tmp_path / "nowhere")
    fitted.save(tmp_path)
    text = (tmp_path / "fit.json").read_text()
    for damaged, says in [
        (text[:-200], "is damaged"),
        ("[1]", "is no fit"),
        (text.replace('"format": 1', '"format": 99'), "format 99"),
        (text.replace('"class": "Viscous"', '"class": "Popen"'), 'part "Popen"'),
        (text.replace('"reasons"', '"seasons"'), "reasons"),
    ]:
        (tmp_path / "fit.json").write_text(damaged)
        with pytest.raises(FitFileError, match=says) as error:
            load_fit(tmp_path)
        assert "\n" not in str(error.value)
    (tmp_path / "fit.json").write_text(text)
    (tmp_path / "weights.npz").write_bytes(b"PK\x03\x04 not a zip")
    with pytest.raises(FitFileError, match="weights.npz"):
        load_fit(tmp_path)


def test_a_pickle_in_the_weights_is_never_opened(fitted, tmp_path):
    fitted.save(tmp_path)
    np.savez(tmp_path / "weights.npz", array_0=np.array([{"a": 1}], dtype=object))
    with pytest.raises(FitFileError, match="weights.npz"):
        load_fit(tmp_path)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"method": "newton"}, 'fit: method is "newton"; use auto, adam, lm, linear'),
        ({"loss": "angle"}, 'fit: loss is "angle"'),
        ({"start": "here"}, 'fit: start is "here"'),
        ({"learn": ("mass",)}, 'fit: learn has "mass"'),
        ({"learn": ()}, None),
        ({"actuator": "glue"}, "glue"),
    ],
)
def test_wrong_words_are_named(changes, says):
    system = SYSTEMS["cartpole"]
    options = {"method": "auto", **changes}
    if says is None:  # an actuator by name is still learned; ideal has nothing to learn
        says = "nothing to learn"
    with pytest.raises(ValueError, match=says.replace("(", r"\(")):
        fit(system.robot, uniform(system, None, count=60), **options)


def test_a_program_in_single_precision_gets_a_model_in_it():
    system = SYSTEMS["cartpole"]
    data, start = uniform(system, None), astype(off_by(system.robot, 0.2), np.float32)
    try:
        with jax.enable_x64(False):
            found = fit(start, data, method="lm")
            assert found.robot.inertia.mass.dtype == np.float32
            single = [np.asarray(array, np.float32) for array in (data.q, data.qd, data.u)]
            wrong = np.asarray(found.model(*single)) - data.qdd
    finally:
        jax.clear_caches()  # see `precision`
    assert found.metrics["nmse"] < 1e-12  # the robot that is given has its gravity in single precision
    assert np.mean(wrong**2) < 1e-8 * np.mean(data.qdd**2)


def test_data_of_other_joints_are_refused():
    system = SYSTEMS["cartpole"]
    three = np.zeros((50, 3))
    with pytest.raises(RecordingError, match="3 joints, the model has 2"):
        fit(system.robot, Samples(q=three, qd=three, qdd=three, u=three))
    two = np.zeros((50, 2))
    with pytest.raises(RecordingError, match="the data are of joints a, b"):
        fit(system.robot, Samples(q=two, qd=two, qdd=two, u=two, joint_names=("a", "b")))
