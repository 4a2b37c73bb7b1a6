"""What a cell of the benchmark is made of: its data, the judgement of a model, and the run that joins them."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from threadpoolctl import threadpool_info

import diffnea as dn
from diffnea.benchmark import Cell, Record, datasets, judging, real, trial
from diffnea.benchmark.judging import Motion
from diffnea.files import finite
from diffnea.identify import pipeline
from diffnea.identify.judge.windows import Windows
from diffnea.identify.problem.residuals import Form
from diffnea.identify.problem.unknowns import unknowns

REAL = Path(__file__).parent.parent.parent / "shared" / "data"
EXACT = 1e-10
# Roll-outs of the true system at 250 Hz against its simulation at 1 kHz: Runge-Kutta's own error over 2 s.
ROLLED = 1e-3


@pytest.fixture(scope="module")
def uniform():
    return datasets.load("cartpole", "uniform", 0, True)


@pytest.fixture(scope="module")
def simulated():
    return datasets.load("cartpole", "simulated", 0, True)


# Data --------------------------------------------------------------------------------------------------------------


def test_uniform_accelerations_are_those_of_the_system_without_friction(uniform):
    system = dn.systems.cartpole()
    for part in (uniform.train, *(held.recording for held in uniform.test)):
        assert isinstance(part, (dn.Samples, dn.Recording)) and part.qd is not None
        qdd = dn.forward_dynamics(system.robot, part.q, part.qd, part.u)
        np.testing.assert_allclose(part.qdd, qdd, atol=EXACT * np.abs(part.qdd).max())
    assert np.all(np.abs(uniform.train.q).max(0) > 0.95 * np.asarray(system.limits.upper))
    assert not np.any(uniform.train.u[:, 1])


def test_a_recorded_step_is_a_step_of_the_system(uniform):
    held = uniform.test[0].recording
    run = dn.rollout(dn.Model(uniform.truth), held.q[100], held.qd[100], held.u[100:150], held.dt)
    np.testing.assert_allclose(run.q, held.q[100:150], atol=1e-6)


def test_the_controller_swings_up_and_stays_in_range(uniform, simulated):
    limits = dn.systems.cartpole().limits
    for data in (uniform, simulated):
        for held in data.test:
            assert np.abs(held.q[:, 0]).max() < 1.2 * limits.upper[0]
            assert np.ptp(np.cos(held.q[:, 1])) > 1.8  # from hanging to nearly upright


def test_data_are_functions_of_their_seed(simulated):
    datasets.load.cache_clear()
    again = datasets.load("cartpole", "simulated", 0, True)
    other = datasets.load("cartpole", "simulated", 1, True)
    for a, b, c in zip(simulated.train, again.train, other.train, strict=True):
        np.testing.assert_array_equal(a.q, b.q)
        np.testing.assert_array_equal(a.qdd, b.qdd)
        assert a.q.shape == c.q.shape and not np.allclose(a.q, c.q)


def test_all_data_sets_are_of_one_size_so_that_programs_are_shared(uniform, simulated):
    assert sum(map(len, simulated.thinned)) == len(uniform.thinned)
    assert sum(map(len, simulated.train)) == len(uniform.train)
    assert len(simulated.samples) == len(uniform.samples)


def test_nothing_fitted_is_tested_on(simulated):
    fitted = {run.name for run in simulated.train}
    assert len(fitted) == len(simulated.train)
    assert not fitted & {held.recording.name for held in simulated.test}


def test_a_prior_is_wrong_but_a_robot(simulated):
    share = np.asarray(simulated.prior.inertia.mass / simulated.truth.inertia.mass)
    assert np.all(np.abs(np.log(share)) > 1e-3) and np.all(np.abs(np.log(share)) < 1)
    np.testing.assert_array_equal(simulated.prior.placement.translation, simulated.truth.placement.translation)


def test_without_recordings_real_is_a_stand_in(tmp_path, monkeypatch):
    monkeypatch.setenv("DIFFNEA_DATA", str(tmp_path))
    assert datasets.resolve("furuta", "real") == "stand-in" and datasets.resolve("furuta", "uniform") == "uniform"
    (tmp_path / "quanser_qube").mkdir()
    assert datasets.resolve("furuta", "real") == "real"
    record = trial.run(Cell("furuta", "real", "nea", quick=True))
    assert record.error is not None and "it holds no recordings" in record.error


@pytest.mark.parametrize("system", ["cartpole", "furuta"])
def test_real_recordings_are_split_by_group(system, monkeypatch):
    if not REAL.is_dir():
        pytest.skip("no recordings beside the checkout")
    monkeypatch.setenv("DIFFNEA_DATA", str(REAL))
    train, test = real.recordings(system, getattr(dn.systems, system)().robot.joint_names)
    groups = [{str(run.name).rpartition(" ")[0] for run in part} for part in (train, test)]
    assert groups[0] and groups[1] and not groups[0] & groups[1]


def test_commands_that_act_late_are_moved_to_where_they_act(simulated):
    prompt = [held.recording for held in simulated.test]
    late = [run.replace(u=np.concatenate([run.u[3:], np.repeat(run.u[-1:], 3, axis=0)])) for run in prompt]
    assert real.samples_late(prompt) == 0 and real.samples_late(late) == 3
    moved = real.as_it_acts(late[0], 3)
    np.testing.assert_array_equal(moved.u[3:], prompt[0].u[3:])
    np.testing.assert_array_equal(moved.u[:3], np.repeat(late[0].u[:1], 3, axis=0))
    assert real.as_it_acts(late[0], 0) is late[0]


def test_without_an_answer_to_the_command_nothing_is_moved(simulated):
    run = simulated.test[0].recording
    noise = np.random.default_rng(0).normal(size=run.u.shape) * [1.0, 0.0]
    assert real.samples_late([run.replace(u=noise)]) == 0


@pytest.mark.parametrize("system", ["cartpole", "furuta"])
def test_the_stand_in_swings_in_every_recording(system):
    data = datasets.load(system, "stand-in", 0, True)
    for recording in (*data.train, *data.check):
        assert recording.q[:, 1].std() > 0.5 and recording.q[:, 0].std() > 0.03


@pytest.mark.slow
def test_the_stand_in_has_what_no_model_has():
    data = datasets.load("cartpole", "stand-in", 0, True)
    step = np.asarray(dn.systems.cartpole().sensors.encoder_step)
    held = data.test[0].recording
    np.testing.assert_allclose(held.q / step, np.round(held.q / step), atol=1e-6)
    best = judging.nmse(dn.Model(data.truth, dn.actuators.make("viscous", 2)), data.samples)
    assert best["mean"] > 0.02 and data.friction is None


# Judgement ---------------------------------------------------------------------------------------------------------


def _cut(count=3, steps=501):
    q = np.zeros((count, 2))
    path = np.zeros((count, steps, 2))
    return Windows(q, q, path, path, 1 / 250, tuple((0, k) for k in range(count)), np.array([0.5, 2.0]))


def _motion(cut, error):
    q = cut.measured + error
    return Motion(q, np.zeros_like(q), np.zeros(len(q), bool))


def test_errors_are_shares_of_the_motion():
    cut = _cut()
    found = judging.rollout_numbers(_motion(cut, 0.1 * cut.spread), cut)
    assert found["horizons"] == pytest.approx(dict.fromkeys(("0.1", "0.5", "1.0", "2.0"), 0.1))
    assert judging.rollout_numbers(_motion(cut, 0.0), cut)["valid_time_10"] == pytest.approx(2.0)


def test_valid_times_end_where_the_error_passes_their_level():
    cut = _cut()
    ramp = np.linspace(0, 1, 501)[None, :, None] * cut.spread  # 100 % after 2 s
    found = judging.rollout_numbers(_motion(cut, ramp), cut)
    assert (found["valid_time_10"], found["valid_time_40"]) == pytest.approx((0.2, 0.8), abs=2 * cut.dt)


def test_what_diverged_counts_as_infinitely_wrong():
    cut = _cut()
    still = _motion(cut, 0.0)
    found = judging.rollout_numbers(replace(still, diverged=np.array([True, True, False])), cut)
    assert found["diverged"] == pytest.approx(2 / 3) and finite(found)["horizons"]["1.0"] is None
    assert found["valid_time_10"] == pytest.approx(2 / 3)


def test_what_is_far_off_is_lost_and_has_not_diverged():
    """A model without friction is soon elsewhere under recorded input; its energy is no less bounded."""
    cut = _cut()
    found = judging.rollout_numbers(_motion(cut, 20 * cut.spread), cut)
    assert (found["lost"], found["diverged"]) == (1.0, 0.0)


def test_energy_from_nothing_is_seen():
    motion = _motion(_cut(), 0.0)
    rising = np.array([[0.0, 0.5], [0.0, 0.0], [0.0, -0.5]])
    found = judging.energy_numbers({"own": rising}, motion)
    assert found == {"own_gain": pytest.approx(1 / 3), "true_gain": None, "diverged": 0.0}


def test_the_truth_is_judged_perfect(uniform):
    system = dn.systems.cartpole()
    numbers, arrays = judging.judge(dn.Model(uniform.truth), uniform, system, True)
    assert numbers["energy_class"] == "conserving" and numbers["nmse"]["mean"] < EXACT
    for way in ("rk4", "auto"):
        assert numbers["rollout"][way]["horizons"]["2.0"] < ROLLED
        for span in ("inside", "doubled"):
            assert numbers["energy"][span][way] == {"own_gain": 0.0, "true_gain": 0.0, "diverged": 0.0}
    for seen in numbers["observables"]:
        assert seen["value"] == pytest.approx(seen["truth"], abs=1e-12)
    assert arrays["auto_q"].shape == arrays["measured_q"].shape
    assert arrays["energy_doubled_auto"].shape[1] == len(arrays["energy_time"])


def test_a_model_that_pushes_by_itself_gains_energy(uniform):
    class Pump(dn.actuators.AbstractActuator):
        num_joints = 2
        energy_class = "unbounded"

        def residual(self, u, q, qd):
            return 0.5 * qd

    cut = judging.windows(uniform, True)
    model = dn.Model(uniform.truth, Pump())
    moved = judging.roll(model, cut, "auto")["doubled"]
    found = judging.energy_numbers(judging.energies(model, uniform.truth, moved), moved)
    assert found["own_gain"] == 1.0 and found["true_gain"] == 1.0


def test_the_rounding_of_a_huge_mass_is_no_gain():
    robot = dn.systems.cartpole().robot
    heavy = dn.Model(replace(robot, armature=jnp.array([1e13, 0.0])))
    q, qd = np.zeros((1, 11, 2)), np.ones((1, 11, 2))
    qd[:, 5:] *= 1 + 1e-14  # 0.1 J of 5e12 J: more than it takes to swing the pole up
    motion = Motion(q, qd, np.array([False]))
    assert judging.energy_numbers(judging.energies(heavy, None, motion), motion)["own_gain"] == 0.0


def test_friction_is_read_at_a_moderate_speed(simulated):
    system = dn.systems.cartpole()
    model = dn.Model(system.robot, dn.actuators.Viscous.of(jnp.array([3.0, 0.01])))
    rows = {seen["name"]: seen for seen in judging.observables(model, simulated, system)}
    assert rows["friction 1"]["value"] == pytest.approx(3.0) and rows["friction 1"]["truth"] == pytest.approx(5.4)
    assert rows["mass matrix 1,1"]["value"] == pytest.approx(0.697)


def test_physical_numbers_are_told_by_the_data_sheets_motor(simulated):
    system = dn.systems.cartpole()
    rows = []
    for factor in (1.0, 3.0):  # a stronger motor with heavier links moves alike
        inertia = jax.tree.map(lambda leaf, f=factor: f * leaf, system.robot.inertia)
        motor = dn.actuators.Motor.of(factor * 4.0, 2.6 * factor, num_joints=2, driven=(True, False), gear=factor)
        model = dn.Model(replace(system.robot, inertia=inertia), motor)
        sheet = dn.actuators.Motor.of(4.0, 2.6, num_joints=2, driven=(True, False))
        rows.append(judging.observables(model, replace(simulated, motor=sheet), system)[0]["value"])
    assert rows[1] == pytest.approx(rows[0]) == pytest.approx(0.697)


# A cell ------------------------------------------------------------------------------------------------------------


def _without_times(record):
    fit = {k: v for k, v in record.numbers["fit"].items() if "seconds" not in k}
    return finite({**record.numbers, "fit": fit})


def test_a_cell_gives_the_same_twice_and_finds_the_truth():
    cell = Cell("cartpole", "uniform", "diffnea-ideal", 0, quick=True)
    first, second = trial.run(cell), trial.run(cell)
    assert first.error is None and _without_times(first) == _without_times(second)
    for name, array in first.arrays.items():
        np.testing.assert_array_equal(array, second.arrays[name])
    assert first.numbers["nmse"]["mean"] < 1e-15 and first.numbers["fit"]["verdict"] == "accepted"
    assert 0 <= first.numbers["fit"]["compile_seconds"] <= first.numbers["fit"]["seconds"]


def test_a_cell_computes_with_one_blas_thread(monkeypatch):
    seen = []

    def watched(cell):
        seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return Record(cell)

    monkeypatch.setattr(trial, "_run", watched)
    trial.run(Cell("cartpole", "uniform", "nea"))
    assert seen and set(seen) == {1}


def test_ways_of_training_are_ways_to_fit(monkeypatch, simulated, uniform):
    def asked(dataset, model, training):
        calls = []
        monkeypatch.setattr(trial, "fit", lambda robot, data, **options: calls.append((data, options)))
        trial._fit(Cell("cartpole", dataset, model, 0, training, True), {"uniform": uniform}.get(dataset, simulated))
        return calls[0]

    data, options = asked("simulated", "diffnea-viscous", "trajectory")
    assert options["loss"] == "trajectory" and options["method"] == "auto" and data is simulated.train
    data, options = asked("uniform", "diffnea-viscous", "trajectory")
    # Samples without order have no trajectories.
    assert options["loss"] == "acceleration" and len(data) == len(uniform.thinned)
    _, options = asked("simulated", "diffnea-viscous", "adam")
    assert options["method"] == "adam" and options["steps"] == trial.QUICK_STEPS
    assert asked("simulated", "diffnea-viscous", "auto")[1]["loss"] == "acceleration"  # not what `fit` would choose
    for training in ("auto", "adam", "trajectory"):
        assert asked("simulated", "nea", training)[1]["method"] == "linear"
        assert asked("simulated", "ff-nn", training)[1]["method"] == "adam"


@pytest.mark.parametrize(
    ("model", "dataset", "quick", "follows"),
    [
        ("diffnea-viscous", "real", False, True),
        ("nokin-stribeck-prior", "stand-in", False, True),
        ("diffnea-viscous", "real", True, False),
        ("diffnea-viscous", "simulated", False, False),
        ("diffnea-nn-friction", "real", False, False),
        ("nokin-ideal", "real", False, False),
    ],
)
def test_few_numbers_follow_the_trajectories_of_machines_that_no_model_matches(model, dataset, quick, follows):
    assert trial.follows_trajectories(Cell("cartpole", dataset, model, 0, "auto", quick)) is follows
    assert trial.follows_trajectories(Cell("cartpole", dataset, model, 0, "trajectory", quick))
    assert not trial.follows_trajectories(Cell("cartpole", dataset, model, 0, "adam", quick))


def test_a_cell_looks_for_no_mistake_in_its_recordings(monkeypatch):
    def looked(*arguments, **options):
        raise AssertionError("hints are of no use here")

    monkeypatch.setattr(pipeline, "hints", looked)
    record = trial.run(Cell("furuta", "stand-in", "nea", 0, quick=True))
    assert record.error is None and record.numbers["fit"]["verdict"] != "accepted"


def test_networks_for_machines_of_one_shape_share_their_programs():
    def form(seed):
        robot = datasets.prior(dn.systems.cartpole().robot, seed)
        free = unknowns(robot, ("inertia",), "nn-torque", jax.random.key(0))
        _, structure, masks = free.nameless()
        assert not any("effort" in label for label in free.labels)
        return Form.of("acceleration", structure, masks), free.tree[1].effort

    (one, usual), (other, more) = form(0), form(1)
    assert one == other and hash(one) == hash(other) and np.any(np.asarray(usual) != np.asarray(more))


def test_what_goes_wrong_is_a_record(monkeypatch):
    def broken(*arguments, **options):
        raise ValueError("two\nlines")

    monkeypatch.setattr(trial, "fit", broken)
    record = trial.run(Cell("cartpole", "uniform", "nea", 0, quick=True))
    assert record.error is not None and record.error.startswith("ValueError: two lines (broken, line ")
