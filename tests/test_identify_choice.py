"""What a fit chooses by itself: parts that the data were made with, and no others."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import lsq_linear

import diffnea as dn
from diffnea.actuators import for_robot
from diffnea.cli.inputs import read_robot
from diffnea.identify.friction.before_choice import with_ways
from diffnea.identify.friction.prandtl import Slip, ways
from diffnea.identify.options import Options
from diffnea.identify.problem.measurements.equations import equations
from diffnea.identify.problem.measurements.tracks import at_instants, split
from diffnea.identify.problem.torque_balance import torques
from diffnea.identify.problem.unknowns import unknowns
from diffnea.identify.solve.regression.blocks import Regression
from diffnea.identify.solve.regression.bounded import bounded_minimum
from diffnea.identify.solve.regression.choice import choose
from diffnea.identify.solve.regression.part_search import _Greedy, best_of_several

DT, SECONDS, NOISE = 0.01, 20.0, 5e-3


@pytest.fixture(scope="module")
def robot():
    with jax.enable_x64(True):
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, float), read_robot("dfki_double_pendulum"))


def motion(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums of sines, with their derivatives."""
    rng, time = np.random.default_rng(seed), np.arange(0, SECONDS, DT)
    rates = 2 * np.pi * rng.uniform(0.2, 1.5, (2, 4))
    phase, size = rng.uniform(0, 2 * np.pi, (2, 4)), rng.uniform(0.2, 0.5, (2, 4))
    angle = rates[..., None] * time + phase[..., None]
    waves = [
        np.sum(size[..., None] * factor, axis=1).T
        for factor in (np.sin(angle), rates[..., None] * np.cos(angle), -(rates[..., None] ** 2) * np.sin(angle))
    ]
    return waves[0], waves[1], waves[2]


def recorded(robot, actuator, unit: float = 1.0, derivatives: bool = True) -> list[dn.Recording]:
    """Two motions with the torques that they take, in some unit, and noise on these."""
    found, model = [], dn.Model(robot, actuator)
    for seed in (1, 2):
        q, qd, qdd = motion(seed)
        tau = torques(model, q, qd, qdd, 0 * q).left
        tau = tau + NOISE * np.random.default_rng(seed).standard_normal(tau.shape)
        more = {"qd": qd, "qdd": qdd} if derivatives else {}
        time = np.arange(len(q)) * DT
        found.append(dn.Recording(time=time, q=q, u=tau / unit, joint_names=robot.joint_names, name=str(seed), **more))
    return found


def chosen(robot, data):
    with jax.enable_x64(True), np.errstate(all="ignore"):
        parts = split(data, data[:1], robot.joint_names, robot.num_joints, 0)
        return choose(robot, parts, "auto", "auto", None, "auto", Options())


CASES = {
    "ideal": "ideal",
    "viscous": "viscous",
    "coulomb+viscous": "viscous+coulomb",
    "constant+viscous": "constant+viscous",
}


@pytest.mark.parametrize("truth", CASES)
def test_the_parts_of_the_truth_are_chosen_and_no_others(robot, truth):
    with jax.enable_x64(True):
        actuator = for_robot(truth, robot)
        if truth == "constant+viscous":
            parts = [replace_offset(part) for part in actuator.parts]
            actuator = dn.actuators.combine(*parts)
        found = chosen(robot, recorded(robot, bigger(actuator)))
    assert set(found.actuator.split("+")) == set(CASES[truth].split("+")), [str(note) for note in found.notes]
    assert found.learn == ("inertia", "actuator") and found.loss == "torque" and not found.known


def test_rotors_of_the_file_that_are_too_large_are_learned_and_nothing_stands_in_for_them(robot):
    """They take most of the torque, as in many arms."""
    with jax.enable_x64(True):
        machine = replace(robot, armature=jnp.array([0.2, 0.1]))
        file = replace(machine, armature=jnp.array([0.3, 0.17]))
        found = chosen(file, recorded(machine, bigger(for_robot("viscous+coulomb", machine))))
    assert found.learn == ("inertia", "actuator", "armature") and found.loss == "torque"
    assert set(found.actuator.split("+")) == {"viscous", "coulomb"}, [str(note) for note in found.notes]


def test_a_torque_that_depends_on_positions_is_found_and_said_to_be_of_something_that_is_there(robot):
    """Of the second wave, which gravity has not."""
    with jax.enable_x64(True):
        cable = dn.actuators.Offset.none(2, harmonics=3)
        cable = replace(cable, cosine=cable.cosine.at[:, 1].set(0.4), sine=cable.sine.at[:, 1].set(-0.3))
        found = chosen(robot, recorded(robot, cable))
    assert "offset" in found.actuator
    assert "cables" in next(str(each) for each in found.notes if each.code == "chosen-offset")


def test_commands_of_the_wrong_sign_get_no_gain(robot):
    """Less and less of such a command would be taken, and what is left looks like a joint without a motor."""
    with jax.enable_x64(True):
        data = recorded(robot, bigger(for_robot("viscous", robot)))
        turned = [replace(each, u=each.u * np.array([1.0, -1.0])) for each in data]
        found = chosen(robot, turned)
    assert "gain" not in found.actuator and "chosen-gain" not in {each.code for each in found.notes}


def test_a_motor_that_turns_with_two_joints_is_found_with_its_sign(robot):
    with jax.enable_x64(True):
        actuator = bigger(for_robot("coupling+viscous", robot, coupled=[[1, -1]]))
        found = chosen(robot, recorded(robot, actuator))
        free = unknowns(robot, found.learn, found.actuator, jax.random.key(0), known=found.known)
    assert "coupling" in found.actuator and (1.0, -1.0) in found.known["coupled"]
    assert "chosen-coupling" in {each.code for each in found.notes}
    assert free.model(jnp.asarray(free.start)).actuator.turning == tuple(found.known["coupled"])


def replace_offset(part):
    return replace(part, constant=jnp.array([0.3, -0.2])) if hasattr(part, "constant") else part


def bigger(actuator):
    """Friction that stands out of the noise: raw numbers of positive coefficients are near their logarithm."""

    def more(path, leaf):
        return leaf + 3.0 if "raw" in jax.tree_util.keystr(path) else leaf

    return jax.tree_util.tree_map_with_path(more, actuator)


def test_commands_in_another_unit_get_a_gain_and_torques_do_not(robot):
    with jax.enable_x64(True):
        actuator = bigger(for_robot("viscous", robot))
        other, same = chosen(robot, recorded(robot, actuator, unit=0.05)), chosen(robot, recorded(robot, actuator))
    assert "gain" in other.actuator and "gain" not in same.actuator
    np.testing.assert_allclose(other.known["gain"], 0.05, rtol=0.05)


@pytest.mark.parametrize("truth", ["ideal", "viscous"])
def test_a_machine_that_swings_freely_gets_the_friction_it_has_and_no_other(truth):
    """Nothing is driven and the file's masses are wrong, each by another factor: only their common scale is open."""
    with jax.enable_x64(True):
        robot = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), read_robot("cartpole"))
        model = dn.Model(robot, for_robot(truth, robot))
        run = dn.rollout(model, jnp.array([0.1, 2.5]), jnp.zeros(2), None, dt=DT / 2, steps=1600)
        q = np.asarray(run.q)
        time, guess = np.arange(len(q)) * DT / 2, robot.inertia.mass * jnp.array([1.4, 0.7])
        data = [dn.Recording(time=time, q=q, u=0 * q, joint_names=robot.joint_names)]
        found = chosen(replace(robot, inertia=replace(robot.inertia, mass=guess)), data)
    assert (found.actuator, found.learn) == (truth, ("inertia", "actuator")), [str(note) for note in found.notes]


def test_measured_inputs_are_told_from_held_ones(robot):
    """At 100 Hz a held command acts half a sample, 5 ms, after the same number measured."""
    with jax.enable_x64(True):
        measured = recorded(robot, bigger(for_robot("viscous", robot)), derivatives=False)
        held = [each.replace(u=np.concatenate([(each.u[:-1] + each.u[1:]) / 2, each.u[-1:]])) for each in measured]
        assert chosen(robot, measured).measured and not chosen(robot, held).measured
        parts = at_instants(split(measured, measured[:1], robot.joint_names, 2, 0))
        said = [dn.recordings.as_held(each) for each in measured]
        wanted, drooping = (split(each, each[:1], robot.joint_names, 2, 0) for each in (said, held))
    seen, right, means = (each.fitted[0].terms.u[50:-50] for each in (parts, wanted, drooping))
    lost, before = (abs(np.vdot(right, each) / np.vdot(right, right) - 1) for each in (seen, means))
    assert lost < 0.2 * before and np.std(seen - right) < 2e-3  # means of two samples are a low-pass, which is undone


def test_recordings_of_nearly_one_rate_are_filtered_together_and_all_alike(robot):
    with jax.enable_x64(True):
        one, other = recorded(robot, for_robot("ideal", robot), derivatives=False)
        jittered = other.replace(time=np.asarray(other.time) * (1 + 2e-5))
        slower = other.replace(time=np.asarray(other.time) * 1.25)
        parts = split([one, jittered, slower], [one], robot.joint_names, 2, 0)
        first, *others = parts.fitted
        first = replace(first, terms=replace(first.terms, bandwidth=2.0))
        rows = equations([first, *others], 0, np.ones(2))
    assert [len(np.unique(each.segment)) for each in rows] == [2, 1]
    assert rows[0].dt == pytest.approx(rows[1].dt, rel=0.1)  # one corner in Hz, whole samples between rows


@pytest.mark.parametrize(("unknown", "taken"), [(0.0, False), (0.6, True)])
def test_usual_parts_are_learned_where_much_is_not_explained(robot, unknown, taken):
    """A torque that no part is like: rotors and constants are learned beside it, though they bring nothing."""
    with jax.enable_x64(True):
        plain = recorded(robot, bigger(for_robot("viscous", robot)))
        size = np.std(plain[0].u, axis=0)
        data = [each.replace(u=each.u + unknown * size * np.sin(9 * np.asarray(each.q)[:, ::-1])) for each in plain]
        parts = split(data, data[:1], robot.joint_names, robot.num_joints, 0)
        found = choose(robot, parts, "auto", "torque", None, "auto", Options())
    assert any(note.code == "chosen-usual" for note in found.notes) == taken, [str(note) for note in found.notes]


class Blocks(Regression):
    """What is left of eight folds: each part that is asked for takes something away."""

    names = ()

    def __init__(self, taken):
        self.taken = taken

    def left_out(self, names, in_one_piece=False):
        return 100.0 * np.exp(-sum((self.taken[name] for name in names), np.zeros(8)))


def test_the_best_of_many_couplings_must_be_surer_than_a_part_by_itself():
    """Half as much again as a standard error is no chance of one part, and is of the best of ten."""
    spread = np.linspace(-1, 1, 8)
    unsure = 0.1 * (1.5 * np.std(spread, ddof=1) / np.sqrt(8) + spread)
    couplings = [f"coupling {k}" for k in range(10)]
    weighed = Blocks({"viscous": np.full(8, 0.5), "constant": unsure, **dict.fromkeys(couplings, 0 * unsure)})
    weighed.taken[couplings[3]] = unsure
    taken = [name for name, _ in _Greedy(weighed, ["viscous", "constant", *couplings]).run()]
    assert taken == ["viscous", "constant"]
    weighed.taken[couplings[3]] = 0.1 + 0.1 * spread
    assert couplings[3] in [name for name, _ in _Greedy(weighed, ["viscous", *couplings]).run()]
    assert best_of_several(1) == pytest.approx(1.0) and best_of_several(10) > 2.5


def test_friction_points_where_joints_came_from_when_parts_are_chosen(robot):
    """Springs made the torques; at rest a velocity is noise. Motors that may turn with both joints have ways too."""
    time = np.arange(0, SECONDS, DT)
    clock = np.minimum(time, SECONDS / 2)  # then it rests
    q = np.column_stack([np.sin(0.9 * clock), np.cos(0.7 * clock)])
    q = q + 1e-6 * np.random.default_rng(0).standard_normal(q.shape)
    with jax.enable_x64(True), np.errstate(all="ignore"):
        model = dn.Model(robot, bigger(for_robot("coulomb", robot)))
        qd, qdd = np.gradient(q, DT, axis=0), 0 * q
        way = ways(q, qd, DT, Slip(np.full(2, 3e-4)), 4e-6)
        u = torques(model, q, qd, qdd, 0 * q, way).left
        data = [dn.Recording(time=time, q=q, u=u, joint_names=robot.joint_names)]
        passive = [data[0].replace(u=u * np.array([1.0, 0.0]))]
        several, alone = (split(each, each, robot.joint_names, 2, 0) for each in (data, passive))
        (found,) = with_ways(robot, several, Options().solve).fitted
        assert with_ways(robot, alone, Options().solve) is alone
    assert found.way.shape == (len(found), 2 + 2)
    rest = slice(-300, -100)
    assert np.ptp(found.way[rest, :2], axis=0).max() < 1e-6 and np.abs(found.way[rest, :2]).min() > 0


def test_bounded_least_squares_agree_with_scipy():
    rng = np.random.default_rng(0)
    for _ in range(20):
        A, b = rng.standard_normal((30, 12)) * np.geomspace(1e-3, 1e3, 12), rng.standard_normal(30)
        lower = np.where(rng.uniform(size=12) < 0.6, 0.0, -np.inf)
        found = bounded_minimum(A.T @ A, -(A.T @ b), lower)
        wanted = lsq_linear(A, b, (lower, np.inf), method="bvls").x
        np.testing.assert_allclose(A @ found, A @ wanted, atol=1e-6)
        assert np.all(found >= lower - 1e-9)
