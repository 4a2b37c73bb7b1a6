"""Fits of robots whose joints follow others, and of robots with springs: what of each joint is felt where it is led."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from robots import relative

import diffnea as dn
from diffnea import batches, formats, parameters, report
from diffnea.actuators import Servo, combine, for_robot
from diffnea.cli import main
from diffnea.coupled import felt_damping, felt_friction, handed_back, whole
from diffnea.errors import DiffneaError
from diffnea.excitation.design import bounds
from diffnea.identify.determine.structure.mobility import mobility
from diffnea.identify.determine.structure.slopes import exciting_states, torque_slopes
from diffnea.identify.io.robot_export import exported
from diffnea.identify.io.servo_export import exported_servos
from diffnea.identify.judge.mistakes import torque_map
from diffnea.identify.problem.besides_bodies import besides_bodies

LAW = 1e-10
LINK = (
    '<link name="{}"><inertial><origin xyz="{}"/><mass value="{}"/>'
    '<inertia ixx="{a}" ixy="0" ixz="0" iyy="{a}" iyz="0" izz="{b}"/></inertial></link>'
)
JOINT = """<joint name="{}" type="revolute"><parent link="{}"/><child link="{}"/><origin xyz="{}"/><axis xyz="{}"/>
<limit lower="{}" upper="{}" velocity="6" effort="20"/><dynamics damping="{}" friction="{}"/>{}</joint>"""
MIMIC = '<mimic joint="grip" multiplier="-2" offset="0.05"/>'


def claw(folder, name, thumb=0.4):
    """An upper arm with a finger and a thumb that closes twice as fast."""
    bodies = (("upper", "0 0 0.18", 2.0, 0.03), ("finger", "0.02 0.01 0.06", 0.3, 8e-4))
    bodies = (*bodies, ("thumb", "-0.02 0.01 0.06", thumb, 1e-3))
    links = "".join(LINK.format(name, at, mass, a=a, b=a / 4) for name, at, mass, a in bodies)
    joints = JOINT.format("shoulder", "base", "upper", "0 0 0", "0 1 0", -2, 2, 0.4, 0.2, "")
    joints += JOINT.format("grip", "upper", "finger", "0.03 0 0.3", "0 1 0", -0.2, 1.2, 0.02, 0.01, "")
    joints += JOINT.format("close", "upper", "thumb", "-0.03 0 0.3", "0 1 0", -1.5, 0.2, 0.01, 0.01, MIMIC)
    path = folder / f"{name}.urdf"
    path.write_text(f'<robot name="claw"><link name="base"/>{links}{joints}</robot>')
    return path


CRANK = """<mujoco model="crank"><worldbody>
<body name="a" pos="0 0 1"><joint name="a" axis="0 1 0" range="-100 100" armature="0.01"/>
<geom type="capsule" size="0.03" fromto="0 0 0 0 0 0.4" mass="1.5"/>
<body name="b" pos="0 0 0.4"><joint name="b" axis="0 1 0" range="-80 80" stiffness="3" springref="10"/>
<geom type="capsule" size="0.03" fromto="0 0 0 0.05 0 0.3" mass="0.9"/>
<body name="c" pos="0 0 0.3"><joint name="c" type="slide" axis="1 0 0" stiffness="20" armature="0.2"/>
<geom type="box" size="0.05 0.02 0.03" pos="0.1 0 0.02" mass="0.5"/></body></body></body></worldbody>
<equality><joint joint1="c" joint2="b" polycoef="0.05 0.3 -0.1 0.08 0.02"/></equality></mujoco>"""


@pytest.fixture(scope="module")
def robots(tmp_path_factory):
    """The robot that moved, and its file, whose thumb is lighter."""
    folder = tmp_path_factory.mktemp("claw")
    return dn.load_robot(claw(folder, "true")), dn.load_robot(claw(folder, "file", 0.25))


@pytest.fixture(scope="module")
def crank(tmp_path_factory):
    path = tmp_path_factory.mktemp("crank") / "crank.xml"
    path.write_text(CRANK)
    return dn.load_robot(path)


def states(robot, seed, seconds=8.0, dt=0.004):
    """A periodic motion within the limits."""
    rng, time, n = np.random.default_rng(seed), np.arange(0, seconds, dt), robot.num_joints
    lower, upper = (np.asarray(each, float) for each in (robot.joint_limits.lower, robot.joint_limits.upper))
    rate = 2 * np.pi * np.arange(1, 9) / seconds
    a, b = rng.normal(size=(2, 8, n))
    sine, cosine = np.sin(rate * time[:, None]), np.cos(rate * time[:, None])
    size = 0.45 * (upper - lower) / np.abs(sine @ a + cosine @ b).max(0)
    q = (upper + lower) / 2 + size * (sine @ a + cosine @ b)
    return (
        time,
        q,
        size * ((cosine * rate) @ a - (sine * rate) @ b),
        -size * ((sine * rate**2) @ a + cosine * rate**2 @ b),
    )


def recording(robot, seed, noise=1.0):
    time, q, qd, qdd = states(robot, seed)
    tau = np.asarray(dn.inverse_dynamics(robot, q, qd, qdd)) + felt_damping(robot) * qd
    tau += felt_friction(robot) * np.sign(qd)
    rng = np.random.default_rng(100 + seed)
    q = q + noise * 1e-5 * rng.normal(size=q.shape)
    u = tau + noise * 0.01 * tau.std(0) * rng.normal(size=q.shape)
    return dn.Recording(time, q, u, joint_names=robot.joint_names, measured=True)


@pytest.fixture(scope="module")
def fitted(robots):
    true, file = robots
    data = [recording(true, seed) for seed in (0, 1)]
    return dn.fit(file, data, test=recording(true, 2), actuator="viscous+coulomb", loss="torque")


def test_bodies_of_joints_that_follow_are_found(fitted, robots):
    true, file = robots
    assert fitted.verdict == "accepted" and fitted.robot.joint_names == ("shoulder", "grip")
    q = states(true, 3)[1][::50]
    wanted, before = (np.asarray(dn.mass_matrix(robot, q)) for robot in (true, file))
    assert relative(dn.mass_matrix(fitted.robot, q), wanted) < 5e-3 < 0.05 < relative(before, wanted)
    assert relative(dn.gravity_torque(fitted.robot, q), dn.gravity_torque(true, q)) < 2e-3
    truth = dn.Model(true, for_robot("viscous+coulomb", true))
    inside = [each.lower <= each.of(truth) <= each.upper for each in fitted.identifiable]
    assert np.mean(inside) > 0.9 and len(inside) > 15


def test_files_keep_the_coupling_and_share_friction_with_what_follows(fitted, robots, tmp_path):
    saved = fitted.save(tmp_path)
    assert {"identified.urdf", "identified.xml"} <= set(saved.files)
    assert MIMIC in (tmp_path / "identified.urdf").read_text()
    lost = fitted.model.actuator.resistance(jnp.zeros(2), jnp.ones(2))
    for name in ("identified.urdf", "identified.xml"):
        back = dn.load_robot(tmp_path / name)
        assert relative(felt_damping(back), lost.viscous) < 1e-6 and relative(felt_friction(back), lost.dry) < 1e-6
        assert relative(back.damping[1] / back.damping[2], 2.0) < 1e-6  # as they were
        q = np.array([0.3, 0.4])
        assert relative(dn.mass_matrix(back, q), dn.mass_matrix(fitted.robot, q)) < 1e-6
    again = dn.load_fit(tmp_path)
    assert len(again.table) == len(fitted.table) and again.robot.couplings is not None


def test_the_page_plays_what_follows(fitted, tmp_path):
    fitted.save(tmp_path)
    text = report.fit(tmp_path).read_text()
    played = json.loads(text.split('id="playback-data">')[1].split("</script>")[0])
    assert [link["name"] for link in played["scene"]["links"]] == ["upper", "finger", "thumb"]
    for rows in (played["measured"], *(run["q"] for run in played["runs"])):
        q = np.array(rows)
        assert q.shape[1] == 3 and np.abs(q[:, 2] - (0.05 - 2 * q[:, 1])).max() < 1e-3


def test_friction_is_felt_by_the_square_and_the_size_of_the_slope(robots):
    true = robots[0]
    np.testing.assert_allclose(felt_damping(true), [0.4, 0.02 + 4 * 0.01], rtol=LAW)
    np.testing.assert_allclose(felt_friction(true), [0.2, 0.01 + 2 * 0.01], rtol=LAW)
    back = handed_back(true, np.asarray(true.damping), np.array([0.2, 0.03]), 2)
    np.testing.assert_allclose(back, [0.2, 0.01, 0.005], rtol=LAW)
    np.testing.assert_allclose(handed_back(true, np.zeros(3), np.array([0.2, 0.03]), 2), [0.2, 0.03, 0.0])
    started = for_robot("viscous", true)
    np.testing.assert_allclose(started.viscous, felt_damping(true), rtol=1e-6)


@pytest.mark.parametrize("which", ["claw", "crank"])
def test_torques_change_with_every_number_as_slopes_say(which, robots, crank):
    robot = robots[0] if which == "claw" else crank
    q, qd, _, qdd = exciting_states(dn.Model(robot), 40)
    count = robot.num_links
    slopes = torque_slopes(robot, q, qd, qdd, True)
    assert slopes.shape == (len(q), 2, 17 * count)
    size = 1e-5
    for link in range(count):
        changed = [replace(robot, armature=robot.armature.at[link].add(sign * size)) for sign in (1, -1)]
        up, down = (np.asarray(dn.inverse_dynamics(each, q, qd, qdd)) for each in changed)
        assert relative(slopes[:, :, 10 * count + link], (up - down) / (2 * size)) < 1e-6


@pytest.mark.parametrize("which", ["claw", "crank"])
def test_regressions_know_springs_and_rotors_of_what_follows(which, robots, crank):
    """Torques less the regressor's are what rotors and springs take, whatever is tied."""
    robot = robots[0] if which == "claw" else crank
    robot = replace(robot, armature=jnp.asarray([0.1, 0.2, 0.3]))
    _, q, qd, qdd = (each[::40] for each in states(robot, 4))
    taken = np.asarray(batches.regressor(robot, q, qd, qdd)) @ np.asarray(batches.inertial_parameters(robot))
    tau = np.asarray(dn.inverse_dynamics(robot, q, qd, qdd))
    assert relative(taken + besides_bodies(robot, q, qd, qdd), tau) < LAW


def test_linear_regression_and_hints_see_springs(crank):
    """Without noise bodies explain all that springs and rotors leave."""
    data = [recording(crank, seed, noise=0.0) for seed in (0, 1)]
    heavier = replace(crank, inertia=jax.tree.map(lambda numbers: 1.2 * numbers, crank.inertia))
    fit = dn.fit(heavier, data, test=recording(crank, 2, noise=0.0), method="linear", actuator="ideal")
    q = states(crank, 3)[1][::50]
    assert fit.verdict == "accepted" and relative(dn.mass_matrix(fit.robot, q), dn.mass_matrix(crank, q)) < 5e-3
    time, q, qd, qdd = states(crank, 0)
    tau = np.asarray(dn.inverse_dynamics(crank, q, qd, qdd))
    motion = torque_map.Motion(q, qd, qdd, tau, np.sign(qd))
    found = torque_map.explained(crank, motion, torque_map.columns(crank, motion))
    assert found.error <= torque_map.LEAST_SHARE * 1.01


def test_evidence_chooses_nothing_that_springs_explain(crank):
    data = [recording(crank, seed) for seed in (0, 1)]
    fit = dn.fit(crank, data, test=recording(crank, 2), loss="torque")
    assert fit.verdict == "accepted" and "offset" not in fit.config["actuator"]
    q = states(crank, 3)[1][::50]
    assert relative(dn.mass_matrix(fit.robot, q), dn.mass_matrix(crank, q)) < 1e-2


def test_a_zero_position_takes_those_that_follow_along(robots):
    true, off = robots[0], 0.06
    data = [recording(true, seed) for seed in (0, 1)]
    turned = [each.replace(q=each.q - np.array([0.0, off])) for each in data]
    test = recording(true, 2).replace(q=recording(true, 2).q - np.array([0.0, off]))
    fit = dn.fit(true, turned, test=test, learn=("calibration", "actuator"), actuator="viscous+coulomb", loss="torque")
    (zero,) = [each for each in fit.identifiable if each.formula == "zero position of grip"]
    assert zero.lower < off < zero.upper and zero.std < 0.01
    q = np.array([0.2, 0.3])
    moved = dn.forward_kinematics(fit.robot, q, "thumb"), dn.forward_kinematics(true, q + [0.0, off], "thumb")
    assert relative(*moved) < 5e-3
    assert len([each for each in fit.identifiable if each.formula.startswith("zero position")]) == 2


@pytest.mark.parametrize(
    ("which", "learn", "joint", "why"),
    [
        ("claw", "armature", "close", "it follows another"),
        ("claw", "calibration", "close", "it follows another"),
        ("crank", "calibration", "b", "others follow it by a curve"),
    ],
)
def test_numbers_that_ties_hide_are_refused_by_name(which, learn, joint, why, robots, crank):
    robot = robots[0] if which == "claw" else crank
    virtual = parameters.encode(robot)
    with pytest.raises(ValueError, match=f'{learn} of "{joint}" is not learned, {why}') as caught:
        parameters.learnable(virtual, learn, joints=[joint])
    assert "\n" not in str(caught.value)
    every = parameters.learnable(virtual, ("armature", "calibration"))
    assert np.asarray(every.armature).tolist() == [True, True, False]
    assert np.asarray(every.zero).tolist() == [True, which == "claw", False]


def test_a_planned_motion_keeps_what_follows_within_its_range(robots):
    found = bounds(robots[0], 1.0, None)
    np.testing.assert_allclose(found.lower, [-2, max(-0.2, (0.2 - 0.05) / -2)])
    np.testing.assert_allclose(found.upper, [2, (-1.5 - 0.05) / -2])
    np.testing.assert_allclose(found.velocity, [6, 3])


def test_links_that_turn_back_as_far_never_turn(robots):
    """A hand on a joint that turns back what the first turns: only its place changes."""
    true = robots[0]
    tree = dn.Tree((-1, 0, 1), ("revolute",) * 3, true.tree.joint_names, true.tree.link_names)
    chain = replace(true, tree=tree, couplings=replace(true.couplings, coefficients=jnp.asarray([[0.0, -1.0]])))
    assert [each.turning for each in mobility(chain)] == [1, 1, 1]
    back = replace(chain, couplings=replace(chain.couplings, leaders=(0,), followers=(1,)))
    assert [each.turning for each in mobility(back)] == [1, 0, 1]


def test_servos_of_joints_that_lead_are_written(robots, tmp_path):
    true = robots[0]
    model = dn.Model(true, combine(Servo.of(np.array([60.0, 6.0]), np.array([3.0, 0.3])), for_robot("viscous", true)))
    assert sorted(exported_servos(model, None)) == ["grip", "shoulder"]
    whole_robot = exported(model)
    dn.save_robot(whole_robot.robot, tmp_path / "servo.xml", servos=whole_robot.servos)
    back = formats.servos(dn.load_robot(tmp_path / "servo.xml"))
    assert back["grip"].stiffness == pytest.approx(6.0)
    run = dn.rollout(model, [0.1, 0.2], [0.0, 0.0], np.tile([0.3, 0.5], (500, 1)), dt=0.004, steps=500)
    assert np.abs(np.asarray(run.q)[-1] - [0.3, 0.5]).max() < 0.2 and run.diverged_at is None


def test_a_check_takes_logs_with_columns_of_what_follows(robots, tmp_path, capsys):
    claw(tmp_path, "file", 0.25)
    data = recording(robots[0], 0)
    dn.save_recording(data, tmp_path / "run.csv")
    lines = (tmp_path / "run.csv").read_text().splitlines()  # logs of real grippers have the follower's column too
    following = 0.05 - 2 * data.q[:, 1]
    text = [f"{lines[0]},q.close", *(f"{line},{x}" for line, x in zip(lines[1:], following, strict=True))]
    (tmp_path / "run.csv").write_text("\n".join(text) + "\n")
    asked = ["--actuator", "viscous+coulomb", "--measured"]
    files = [str(tmp_path / name) for name in ("file.urdf", "run.csv")]
    assert main(["check", *files, *asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["joints"] == ["shoulder", "grip"] and told["rank"] == told["structural_rank"] and told["all_driven"]


FOUR_BAR = """<mujoco><worldbody><body name="a"><joint name="a" axis="0 1 0"/><geom size="0.1" pos="0 0 0.2"/>
<body name="b" pos="0 0 0.4"><joint name="b" axis="0 1 0"/><geom size="0.1" pos="0.2 0 0"/></body></body>
<body name="c" pos="0.4 0 0"><joint name="c" axis="0 1 0"/><geom size="0.1" pos="0 0 0.2"/></body></worldbody>
<equality><connect body1="b" body2="c" anchor="0.4 0 0"/></equality></mujoco>"""
BALL = """<mujoco><worldbody><body name="a"><joint name="a" type="ball"/>
<geom size="0.1" pos="0 0 0.2"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize(
    ("text", "said"), [(FOUR_BAR, "close a loop; trees can be used"), (BALL, 'joint "a" .* is ball')]
)
def test_loops_and_balls_are_refused_in_one_line(text, said, tmp_path):
    path = tmp_path / "robot.xml"
    path.write_text(text)
    with pytest.raises(DiffneaError, match=said) as caught:
        dn.fit(dn.load_robot(path), [])
    assert "\n" not in str(caught.value) and "lock" in str(caught.value)


def test_a_coupling_matters_to_the_whole(crank):
    """What the tests stand on: q of all joints from those that lead, as `dn.mass_matrix` has it."""
    q = jnp.asarray([0.2, 0.4])
    full = whole(crank, q)
    assert full.q.shape == (3,) and jax.numpy.allclose(full.G[2, 1], 0.3 - 0.2 * 0.4 + 0.24 * 0.16 + 0.08 * 0.064)
