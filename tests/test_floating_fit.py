"""Fits of a robot with a free base: MuJoCo flies a box with two legs, and its masses are found again."""

import json
from dataclasses import replace

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import diffnea as dn
from diffnea import identify, report
from diffnea.cli import main
from diffnea.cli.feet import feet_of
from diffnea.coupled import felt_damping
from diffnea.errors import DiffneaError
from diffnea.excitation.riding import InTheAir
from diffnea.identify.floating.column_noise import with_noise, without_noise
from diffnea.identify.floating.contacts import check_feet, prepared, projected, with_feet
from diffnea.identify.floating.linear_rows import rows_of
from diffnea.identify.floating.motion_columns import Beside, columns, given_numbers, numbers, sizes
from diffnea.identify.floating.stretches import Stretch, split
from diffnea.identify.judge.balance import turned
from diffnea.identify.options import ProblemOptions

LEG = """<body name="{n}_thigh" pos="0 {y} -0.05"><joint name="{n}_hip" axis="{axis}" damping="0.1" armature="0.005"/>
<inertial pos="0.01 {c} -0.1" mass="1" fullinertia="0.006 0.006 0.001 0 0 0.0005"/>
<body name="{n}_shank" pos="0 0 -0.2"><joint name="{n}_knee" axis="0 1 0" damping="0.1" armature="0.005"/>
<inertial pos="0 0 -0.09" mass="0.4" fullinertia="0.002 0.002 0.0003 0 0 0"/></body></body>"""
TRUNK = """<mujoco model="hopper"><worldbody><body name="trunk" pos="0 0 2"><freejoint/>
<inertial pos="0.03 0.01 0.02" mass="{mass}" fullinertia="0.05 0.08 0.07 0.004 -0.003 0.002"/>{legs}</body></worldbody>
<actuator>{motors}</actuator></mujoco>"""
VISCOUS, MASS, STEP = 0.1, 5.0, 0.002
IMU_AT = np.array([0.05, 0.02, 0.03])
SOLE = np.array([0.01, 0.0, -0.18])
HALF_WEIGHT = 9.81 * (MASS + 2.8) / 2


def hopper(mass=MASS):
    sides = (("l", 0.1, 0.02, "1 0 0"), ("r", -0.1, -0.02, "0.6 0.8 0"))
    legs = "".join(LEG.format(n=n, y=y, c=c, axis=axis) for n, y, c, axis in sides)
    motors = "".join(f'<motor joint="{n}_{joint}"/>' for n in "lr" for joint in ("hip", "knee"))
    return TRUNK.format(mass=mass, legs=legs, motors=motors)


def flown(seconds, seed=0, pushed=False, give=None):
    """Time, qpos, torques, and the base's proper acceleration at the sensor and rates, in the base's axes.

    `pushed`: forces that nobody records act on both shanks, at the same place of each. With `give` that place is lower
    in the base's axes by so many metres for each half weight beyond the first; each pushes by about half then.
    """
    model = mujoco.MjModel.from_xml_string(hopper())
    model.opt.timestep, model.opt.integrator = STEP / 4, mujoco.mjtIntegrator.mjINT_RK4
    data, rng = mujoco.MjData(model), np.random.default_rng(seed)
    data.qvel[3:6] = rng.normal(size=3)
    speed, phase, size = rng.uniform(3, 12, (4, 3)), rng.uniform(0, 6, (4, 3)), rng.uniform(0.1, 0.35, (4, 3))
    rows = []
    for k in range(int(seconds / STEP)):
        wanted = (size * np.sin(speed * k * STEP + phase)).sum(1)
        accelerations = []
        mujoco.mj_forward(model, data)
        data.qfrc_applied[:] = 0
        for leg, name in enumerate(("l_shank", "r_shank")) if pushed else ():
            body = data.body(name)
            at, push = body.xpos + body.xmat.reshape(3, 3) @ SOLE, 20 * np.sin([5 * k * STEP + leg, 3 * k * STEP, 1.0])
            if give is not None:
                up = data.body("trunk").xmat.reshape(3, 3)[:, 2]
                push += HALF_WEIGHT * (1 + 0.8 * np.sin(4 * k * STEP + leg)) * up
                at = at - give * (push @ up / HALF_WEIGHT - 1) * up
            mujoco.mj_applyFT(model, data, push, np.zeros(3), at, body.id, data.qfrc_applied)
        accelerations.append(data.qacc.copy())
        data.ctrl[:] = 40 * (wanted - data.qpos[7:]) - 2 * data.qvel[6:]
        mujoco.mj_forward(model, data)
        accelerations.append(data.qacc.copy())
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, data.qpos[3:7])
        a, w = np.mean(accelerations, axis=0), data.qvel[3:6].copy()
        force = turn.reshape(3, 3).T @ (a[:3] + [0, 0, 9.81])
        force += np.cross(a[3:6], IMU_AT) + np.cross(w, np.cross(w, IMU_AT))
        rows.append((data.qpos.copy(), data.ctrl.copy(), force, w))
        for _ in range(4):
            mujoco.mj_step(model, data)
    q, u, force, rates = map(np.array, zip(*rows, strict=True))
    return STEP * np.arange(len(q)), q, u, force, rates


@pytest.fixture(scope="module")
def flight():
    return flown(14.0)


@pytest.fixture(scope="module")
def robots(tmp_path_factory):
    """The robot that flew, and its file, which has a lighter trunk."""
    folder = tmp_path_factory.mktemp("hopper")
    for name, mass in (("true", MASS), ("file", 0.8 * MASS)):
        (folder / f"{name}.xml").write_text(hopper(mass))
    return dn.load_robot(folder / "true.xml"), dn.load_robot(folder / "file.xml")


def recording(flight, robot, source, noise=1.0):
    time, q, u, force, rates = flight
    rng = np.random.default_rng(1)

    def read(values, level):
        return values + noise * level * rng.normal(size=values.shape)

    if source == "pose":
        base = dn.BaseMotion(position=read(q[:, :3], 1e-4), quaternion=read(q[:, 3:7], 1e-4))
    else:
        off = noise * np.array([0.1, -0.05, 0.08])
        base = dn.BaseMotion(accelerometer=read(force, 0.02) + off, gyroscope=read(rates, 0.002), imu_position=IMU_AT)
    return dn.Recording(time, read(q[:, 7:], 1e-4), read(u, 0.02), joint_names=robot.joint_names, base=base)


@pytest.fixture(scope="module")
def fitted(flight, robots):
    return dn.fit(robots[1], recording(flight, robots[1], "pose"))


def truth(fit, robot):
    return type(fit.model)(robot, type(fit.model.actuator).of(np.full(4, VISCOUS)))


@pytest.mark.parametrize("source", ["pose", "imu"])
def test_equations_of_motion_hold_for_the_robot_that_flew(flight, robots, source):
    true = robots[0]
    parts = split(true, recording(flight, true, source, noise=0.0), None, ProblemOptions())
    size = sizes(true, parts.fitted)
    (rows,) = rows_of(parts.fitted, lambda stretch: columns(true, stretch, False) / size[:, None], 10.0)
    phi = np.array(numbers(dn.Model(true, dn.actuators.make("viscous+coulomb", 4))))
    phi[-8:] = [VISCOUS] * 4 + [0.0] * 4
    assert np.abs(rows.left(phi)).max() < 2e-3
    heavier = phi.copy()
    heavier[0] *= 1.1
    assert np.abs(rows.left(heavier)).max() > 2e-2


def test_trunk_is_found_from_its_pose_and_joint_torques(fitted, robots):
    found, true = fitted.robot, robots[0]
    assert fitted.verdict == "accepted" and fitted.config["actuator"] == "viscous"
    assert float(found.inertia.mass[0]) == pytest.approx(MASS, rel=0.01)
    centre = np.asarray(found.inertia.first_moment[0]) / float(found.inertia.mass[0])
    assert np.abs(centre - [0.03, 0.01, 0.02]).max() < 2e-3
    inside = [each.lower <= each.of(truth(fitted, true)) <= each.upper for each in fitted.identifiable]
    assert np.mean(inside) > 0.9 and len(inside) > 40
    assert "mass of all links" in {each.formula for each in fitted.identifiable}


def test_an_inertial_sensor_is_enough_and_its_bias_is_found(flight, robots):
    fit = dn.fit(robots[1], recording(flight, robots[1], "imu"), actuator="viscous")
    assert fit.verdict == "accepted"
    assert float(fit.robot.inertia.mass[0]) == pytest.approx(MASS, rel=0.015)
    inside = [each.lower <= each.of(truth(fit, robots[0])) <= each.upper for each in fit.identifiable]
    assert np.mean(inside) > 0.85
    (said,) = [each for each in fit.notes if each.code == "imu-mounting"]
    assert said.values["bias"] == pytest.approx(np.linalg.norm([0.1, -0.05, 0.08]), rel=0.3)


def test_a_fit_is_written_and_read_back(fitted, robots, tmp_path):
    saved = fitted.save(tmp_path)
    assert "identified.xml" in saved.files and "identified.urdf" in saved.files
    back = dn.load_robot(tmp_path / "identified.xml")
    assert back.base == "floating"
    np.testing.assert_allclose(back.inertia.mass, fitted.robot.inertia.mass, rtol=1e-9)
    assert np.asarray(back.damping)[back.joint_links] == pytest.approx(VISCOUS, rel=0.02)
    again = dn.load_fit(tmp_path)
    assert again.verdict == fitted.verdict and len(again.table) == len(fitted.table)


def test_forces_of_feet_that_nobody_knows_are_projected_out(robots):
    true = robots[0]
    feet = {name: dn.Foot(f"{name}_shank", tuple(SOLE)) for name in "lr"}
    parts = split(true, recording(flown(4.0, pushed=True), true, "imu", noise=0.0), None, ProblemOptions())
    size = sizes(true, parts.fitted)
    phi = np.array(numbers(dn.Model(true, dn.actuators.make("viscous+coulomb", 4))))
    phi[-8:] = [VISCOUS] * 4 + [0.0] * 4

    def left(feet):
        def table(stretch):
            return projected(columns(true, stretch, False) / size[:, None], true, stretch, feet, size)

        return np.abs(rows_of(parts.fitted, table, 8.0)[0].left(phi)).max()

    assert left(feet) < 0.05 < 0.5 < left({})  # forces are held over a sample, poses are not
    off = {name: dn.Foot(foot.link, (0.05, 0.0, -0.1)) for name, foot in feet.items()}
    assert left(off) > 0.1


@pytest.mark.parametrize("give", [None, 0.004])
def test_how_deep_a_foot_sinks_in_is_learned(robots, give):
    true = robots[0]
    whole = recording(flown(4.0, pushed=True, give=give), true, "imu", noise=0.0)
    still = np.tile([1.0, 0.0, 0.0, 0.0], (len(whole), 1))
    whole = whole.replace(base=whole.base.replace(position=np.zeros((len(whole), 3)), quaternion=still))
    # Balls whose centres are above the place of the force; the file has them larger by a centimetre.
    feet = {name: dn.Foot(f"{name}_shank", tuple(SOLE), 0.01) for name in "lr"}
    (stretch,) = split(true, whole, whole, ProblemOptions()).fitted
    size = sizes(true, (stretch,))
    given = given_numbers(true, False)
    given[-4:] = 0.0

    def table(stretch):
        return projected(columns(true, stretch, False) / size[:, None], true, stretch, feet, size, given)

    (rows,) = rows_of((prepared(stretch, feet),), table, 8.0)
    names = ("radius of foot l", "radius of foot r", "give of foot l", "give of foot r")
    assert with_feet(Beside(), feet).labels == names
    slopes, left = rows.table[:, :, -5:-1].reshape(-1, 4), rows.left(np.append(given, np.zeros(4))).ravel()
    found, *_ = np.linalg.lstsq(slopes, -left, rcond=None)
    np.testing.assert_allclose(found[:2], -0.01, atol=2e-3)  # slopes are those at the radius that the file has
    np.testing.assert_allclose(found[2:], give or 0.0, atol=1e-3)
    # What is left is of forces that are held over a sample; with `give` they are larger.
    assert np.std(left + slopes @ found) < (0.3 if give is None else 0.8) * np.std(left)


def test_a_gyroscope_that_is_off_is_found(flight, robots):
    true, off = robots[0], np.array([0.02, -0.03, 0.01])
    whole = recording(flight, true, "imu", noise=0.0)
    base = whole.base.replace(gyroscope=whole.base.gyroscope + off)
    (stretch,) = split(true, whole.replace(base=base), whole, ProblemOptions()).fitted
    given = np.append(given_numbers(true, False), np.zeros(9))
    given[-13:-9] = 0.0  # no dry friction
    (rows,) = rows_of((stretch,), lambda stretch: columns(true, stretch, True), 10.0)
    slopes, left = rows.table[:, :6, -4:-1].reshape(-1, 3), rows.left(np.append(given, np.zeros(3)))[:, :6].ravel()
    found, *_ = np.linalg.lstsq(slopes, -left, rcond=None)
    np.testing.assert_allclose(found, off, atol=2e-3)


def test_the_page_of_a_free_base_draws_its_equations_and_its_motion(fitted, tmp_path):
    fitted.save(tmp_path)
    text = report.fit(tmp_path).read_text()
    for name in ("base force x", "base moment z", "l_knee", "Equations of motion", 'id="playback-canvas"'):
        assert name in text
    assert "This folder holds no data" not in text and "nMSE" not in text
    played = json.loads(text.split('id="playback-data">')[1].split("</script>")[0])
    assert played["scene"]["links"][0]["free"] and not played["runs"]
    assert len(played["measured"][0]) == 5 and len(played["measured"][0][0]) == 7
    kept = dn.load_fit(tmp_path).balance
    assert kept.labels[:1] == ("base force x",) and not kept.feet
    better = [np.mean((np.asarray(side) - np.asarray(kept.brought)) ** 2) for side in (kept.fit, kept.start)]
    assert better[0] < 0.3 * better[1]


def test_a_check_tells_what_a_free_base_determines(fitted, flight, robots, tmp_path, monkeypatch, capsys):
    (tmp_path / "hopper.xml").write_text(hopper(0.8 * MASS))
    dn.save_recording(recording(flight, robots[1], "pose")[:2000], tmp_path / "flight.csv")
    monkeypatch.setattr(identify, "fit", lambda *_, **__: fitted)  # what a fit is has tests of its own
    assert main(["check", str(tmp_path / "hopper.xml"), str(tmp_path / "flight.csv"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["actuator"] == "viscous" and told["rank"] == fitted.known.counts["rank"] > 30
    values = {each["formula"]: each["value"] for each in told["combinations"]}
    assert values["mass of all links"] == pytest.approx(0.8 * MASS + 2 * 1.4)  # as the file has it
    assert told["sliding"] == [False] * 4 and any("masses" in each for each in told["verdict"]["good_for"])
    assert main(["check", str(tmp_path / "hopper.xml"), str(tmp_path / "flight.csv"), "--feet", "l=l_shank:0,0"]) == 1
    assert "--feet has" in capsys.readouterr().err


def test_a_base_of_which_rates_alone_are_known_turns_in_place():
    axis, speed, dt = np.array([0.6, 0.0, 0.8]), 3.0, 0.01
    pose = turned(np.tile(speed * axis, (101, 1)), dt)
    assert np.all(pose[:, :3] == 0)
    half = 0.5 * speed * dt * 100
    np.testing.assert_allclose(pose[-1, 3:], [np.cos(half), *(np.sin(half) * axis)], atol=2e-4)


def test_contacts_last_a_little_longer_and_feet_in_the_air_take_nothing(robots):
    true = robots[0]
    whole = recording(flown(2.0), true, "pose", noise=0.0)
    touch = np.zeros((len(whole), 1))
    touch[400:500] = 1
    whole = whole.replace(base=whole.base.replace(contacts=touch, contact_names=("l",)))
    (stretch,) = split(true, whole, whole, ProblemOptions()).fitted
    feet = {"l": dn.Foot("l_shank", tuple(SOLE))}
    ready = prepared(stretch, feet)
    assert 100 < ready.contacts.sum() < 160
    table = columns(true, ready, False)
    same = projected(table, true, ready, feet, np.ones(10))
    free = ready.contacts[:, 0] == 0
    np.testing.assert_allclose(same[free], table[free], rtol=1e-12)
    assert np.abs(same[~free] - table[~free]).max() > 0.01


def test_feet_that_are_not_there_are_refused(flight, robots):
    whole = recording(flight, robots[0], "pose")[:500]
    with pytest.raises(ValueError, match='foot "left" is on link "toe"; the robot has trunk'):
        dn.fit(robots[0], whole, feet={"left": dn.Foot("toe")})


@pytest.mark.parametrize(
    "word", ["l", "=l_shank", "l=", "l=:0,0,0", "l=l_shank:0,0", "l=l_shank:0,0,0,0", "l=l_shank:a,0,0"]
)
@pytest.mark.parametrize("more", ["", ":0.02:0.1"])
def test_malformed_feet_are_refused_in_a_line(word, more):
    with pytest.raises(ValueError, match="--feet has .*give NAME=LINK:X,Y,Z:RADIUS") as error:
        feet_of((word + more,))
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="--feet has"):
        feet_of(("l=l_shank", "l=r_shank"))


@pytest.mark.parametrize(
    "foot",
    [
        dn.Foot("l_shank", (0.0, float("nan"), 0.0)),
        dn.Foot("l_shank", (0.0, 0.0, float("inf"))),
        dn.Foot("l_shank", radius=-0.02),
        dn.Foot("l_shank", radius=float("nan")),
    ],
)
def test_feet_of_impossible_places_are_refused(robots, foot):
    with pytest.raises(ValueError, match='foot "l" has point .*give three finite numbers'):
        check_feet(robots[0], {"l": foot})


def test_noise_is_taken_out_of_products_and_never_more_than_there_is(flight, robots):
    true = robots[0]
    parts = split(true, recording(flight, true, "imu"), None, ProblemOptions())

    def table(stretch):
        return columns(true, stretch, False)

    (rows,) = with_noise(rows_of(parts.fitted, table, 15.0), parts.fitted, table, 15.0)
    assert rows.noise is not None and np.trace(rows.noise[0]) > 0
    gram = rows.grams[0]
    less = without_noise(gram, 10 * np.trace(gram) * np.eye(len(gram)))
    values = np.linalg.eigvalsh((less + less.T) / 2)
    assert values.min() > -1e-9 * values.max() and np.trace(less) < np.trace(gram)


# Recordings ---------------------------------------------------------------------------------------------------------


def test_a_base_is_kept_by_files_slices_and_clocks(flight, robots, tmp_path):
    whole = recording(flight, robots[0], "pose")[:200]
    for ending in (".csv", ".npz"):
        dn.save_recording(whole, tmp_path / f"run{ending}")
        back = dn.load_recording(tmp_path / f"run{ending}", robots[0])
        np.testing.assert_allclose(back.base.position, whole.base.position, rtol=1e-12)
        np.testing.assert_allclose(back.base.quaternion, whole.base.quaternion, rtol=1e-12)
    assert len(whole[10:30].base) == 20
    late = whole.replace(time=whole.time + np.where(np.arange(200) > 100, 0.1 * STEP, 0.0))
    (piece,) = dn.recordings.regular(late)
    assert len(piece.base) == len(piece)
    both = dn.recordings.concatenate([whole[:100], whole[100:]])
    np.testing.assert_allclose(both.base.quaternion, whole.base.quaternion)


def test_a_base_may_have_no_joints(tmp_path):
    (tmp_path / "drone.csv").write_text(
        "time,base.x,base.y,base.z,base.qw,base.qx,base.qy,base.qz,rotor.1,rotor.2,battery\n"
        + "\n".join(f"{0.01 * k},0,0,{k},1,0,0,0,0.5,0.6,3.7" for k in range(20))
    )
    found = dn.load_recording(tmp_path / "drone.csv")
    assert found.num_joints == 0 and found.base.rotors.shape == (20, 2) and found.base.battery[3] == 3.7


def test_quaternions_keep_their_side():
    turn = np.tile([1.0, 0, 0, 0], (6, 1))
    base = dn.BaseMotion(position=np.zeros((6, 3)), quaternion=turn * np.array([1, 1, -1, -1, 1, -1])[:, None])
    np.testing.assert_array_equal(base.quaternion, turn)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"position": np.zeros((5, 3))}, "position and quaternion come together"),
        ({"position": np.zeros((5, 3)), "quaternion": np.zeros((5, 4))}, "length 0 in row 0"),
        ({"position": np.zeros((5, 2)), "quaternion": np.ones((5, 4)) / 2}, r"give \(samples, 3\)"),
        ({"accelerometer": np.full((5, 3), np.nan), "gyroscope": np.zeros((5, 3))}, "not finite in row 0"),
        ({"contacts": np.zeros((5, 2)), "contact_names": ["left"]}, "2 columns of contacts, 1 names"),
        ({"rotors": [[1.0], [2.0, 3.0]]}, "no rectangular array"),
    ],
)
def test_bases_that_cannot_be_are_refused_in_a_line(given, said):
    with pytest.raises(dn.RecordingError, match=said):
        dn.BaseMotion(**given)


def test_columns_of_a_base_that_lack_others_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("time,base.x,base.y\n0,0,0\n0.1,0,0\n")
    with pytest.raises(dn.RecordingError, match='no column "base.z" beside "base.x"'):
        dn.load_recording(tmp_path / "a.csv")
    with pytest.raises(dn.RecordingError, match=r'base\.columns: "base\.w" is not known'):
        dn.load_recording(tmp_path / "a.csv", columns={"base": {"columns": {"base.w": "base.x"}}})


def test_what_a_free_base_cannot_be_fitted_with_is_refused(flight, robots):
    robot = robots[0]
    whole = recording(flight, robot, "pose")[:500]
    with pytest.raises(dn.RecordingError, match="nothing was recorded of the free base"):
        dn.fit(robot, whole.replace(base=None))
    with pytest.raises(dn.RecordingError, match="needs joint torques"):
        dn.fit(robot, whole.replace(input_kind="goal"))
    with pytest.raises(ValueError, match='loss "trajectory" is not for a free base'):
        dn.fit(robot, whole, loss="trajectory")
    with pytest.raises(ValueError, match="actuator is auto, ideal"):
        dn.fit(robot, whole, actuator="motor")
    with pytest.raises(ValueError, match="kinematics is for fixed bases"):
        dn.fit(robot, whole, learn="kinematics")
    ball = dn.Tree((-1, 0), ("free", "ball"), ("a", "b"), ("A", "B"))
    from robots import random_robot

    with pytest.raises(DiffneaError, match='joint "b" is ball'):
        dn.fit(random_robot(ball, 0), whole)


TIED = """<equality><joint joint1="r_knee" joint2="l_knee" polycoef="0.1 0.7 0.1 0 0"/></equality><tendon>
<fixed name="band" stiffness="2"><joint joint="l_hip" coef="1"/><joint joint="r_hip" coef="-0.5"/></fixed></tendon>"""


@pytest.fixture(scope="module")
def tied(tmp_path_factory):
    """The hopper with a knee that follows by a curve, a spring and a tendon's; and its file with a lighter trunk."""
    folder = tmp_path_factory.mktemp("tied")
    for name, mass in (("true", MASS), ("file", 0.8 * MASS)):
        text = hopper(mass).replace("</worldbody>", "</worldbody>" + TIED)
        (folder / f"{name}.xml").write_text(text.replace('name="r_knee" axis', 'name="r_knee" stiffness="1.5" axis'))
    return dn.load_robot(folder / "true.xml"), dn.load_robot(folder / "file.xml")


def waving(robot, seconds):
    """Time, and how the robot moves in the air: q of all, q̇, q̈ less gravity, and the torques that friction adds to."""
    time, rng = np.arange(0, seconds, STEP), np.random.default_rng(3)
    speed, phase, size = rng.uniform(3, 12, (4, 3)), rng.uniform(0, 6, (4, 3)), rng.uniform(0.1, 0.3, (4, 3))
    wave = speed * time[:, None, None] + phase
    q, qd, qdd = ((size * each).sum(1) for each in (np.sin(wave), speed * np.cos(wave), -(speed**2) * np.sin(wave)))
    states = [np.asarray(each) for each in InTheAir(robot)(*map(jnp.asarray, (q, qd, qdd)))[:3]]
    tau = np.asarray(dn.inverse_dynamics(replace(robot, gravity=jnp.zeros(3)), *states))
    assert np.abs(tau[:, :6]).max() < 1e-9 * np.abs(tau).max()
    return time, *states, tau[:, 6:] + felt_damping(robot) * qd


def test_equations_hold_where_joints_follow_others_and_springs_pull(tied):
    true = tied[0]
    assert true.joint_names == ("l_hip", "l_knee", "r_hip") and true.tendons is not None and true.springs is not None
    given = given_numbers(true, False)
    np.testing.assert_allclose(given[-6:-3], [VISCOUS, VISCOUS * (1 + 0.7**2), VISCOUS], rtol=1e-12)
    _, q, qd, qdd, u = waving(true, 1.0)
    still = np.zeros((len(q), 3))
    stretch = Stretch(
        "wave", STEP, q[:, 7:], qd[:, 6:], qdd[:, 6:], u, qdd[:, :3], qd[:, 3:6], qdd[:, 3:6],
        None, None, (), True, 25.0, 10.0, 0.0, np.zeros(3), np.zeros(6), still[0],
    )  # fmt: skip
    table = columns(true, stretch, False)
    assert np.abs(table[:, :, :-1] @ given - table[:, :, -1]).max() < 1e-9 * np.abs(u).max()


def test_a_trunk_is_found_where_joints_follow_others(tied):
    true, file = tied
    time, q, qd, qdd, u = waving(true, 8.0)
    rng = np.random.default_rng(1)

    def read(values, level):
        return values + level * rng.normal(size=values.shape)

    base = dn.BaseMotion(accelerometer=read(qdd[:, :3], 0.02), gyroscope=read(qd[:, 3:6], 0.002))
    measured = read(q[:, 7:], 1e-4), read(u, 0.02)
    data = dn.Recording(time, *measured, joint_names=true.joint_names, base=base, measured=True)
    fit = dn.fit(file, data, actuator="viscous")
    assert fit.verdict == "accepted"
    assert float(fit.robot.inertia.mass[0]) == pytest.approx(MASS, rel=0.02)
    truth = type(fit.model)(true, dn.actuators.for_robot("viscous", true))
    assert np.mean([each.lower <= each.of(truth) <= each.upper for each in fit.identifiable]) > 0.85
