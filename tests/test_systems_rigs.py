"""The robot files of real machines: they obey their authors' equations, and carry the joints of their recordings."""

from importlib import resources

import numpy as np
import pytest

import diffnea as dn
from diffnea.recordings import public

RIGS = {
    "dfki_double_pendulum": "dfki_double_pendulum",
    "multiarm_double_pendulum": "multiarm_pendulum",
    "servo_pendulum": "servo_pendulum_bam",
    "staubli_tx40": "staubli_tx40",
    "kuka_kr300": "kuka_kr300",
}


def shipped(name):
    with resources.as_file(resources.files("diffnea.systems") / f"{name}.urdf") as path:
        return dn.load_robot(path)


@pytest.mark.parametrize("name", RIGS)
def test_a_rig_is_physical_and_named_as_its_recordings(name):
    robot = shipped(name)
    assert robot.name == name
    if not (public.folder() / RIGS[name]).is_dir():
        pytest.skip(f"{RIGS[name]} is not in {public.folder()}")
    groups = public.load(RIGS[name])
    recording = groups["double" if name.startswith("multiarm") else next(iter(groups))][0]
    assert recording.joint_names == robot.joint_names


def test_the_dfki_pendulum_obeys_its_authors_model():
    robot = shipped("dfki_double_pendulum")
    rng = np.random.default_rng(0)
    q, qd, tau = rng.uniform(-3, 3, (3, 20, 2))
    qdd = np.asarray(dn.forward_dynamics(robot, q, qd, tau))
    # Model 2.0 of the authors, whose inertias are about the joints, without what couples the rotors.
    m1, m2, r1, r2, l1, i1, i2, rotor = 0.758644, 0.336937, 0.2, 0.468438, 0.2, 0.0421116, 0.0510353, 36 * 6.2872e-5
    s1, s2, c2, s12 = np.sin(q[:, 0]), np.sin(q[:, 1]), np.cos(q[:, 1]), np.sin(q.sum(1))
    h, (w1, w2), (a1, a2) = l1 * m2 * r2, qd.T, qdd.T
    coupled = i2 + h * c2
    first = (i1 + i2 + l1 * l1 * m2 + 2 * h * c2 + rotor) * a1 + coupled * a2 - h * s2 * (2 * w1 * w2 + w2 * w2)
    first += 9.81 * ((m1 * r1 + m2 * l1) * s1 + m2 * r2 * s12)
    second = coupled * a1 + (i2 + rotor) * a2 + h * s2 * w1 * w1 + 9.81 * m2 * r2 * s12
    np.testing.assert_allclose(np.column_stack([first, second]), tau, atol=2e-4)  # the file has six digits


def test_the_arms_stand_as_their_tables_say():
    """Wrist positions of the Denavit-Hartenberg tables: the TX40 straight up, the KR300 stretched along x."""
    up = np.array([0, -np.pi / 2, np.pi / 2, 0, 0, 0])
    wrist = np.asarray(dn.forward_kinematics(shipped("staubli_tx40"), up))[-1, :3, 3]
    np.testing.assert_allclose(wrist, [0, 0.035, 0.45], atol=1e-8)
    wrist = np.asarray(dn.forward_kinematics(shipped("kuka_kr300"), np.zeros(6)))[4, :3, 3]
    np.testing.assert_allclose(wrist, [0.35 + 1.15 + 1.0, 0, 0.675 - 0.041], atol=1e-8)


def test_the_free_pendulum_explains_its_recording():
    if not (public.folder() / "multiarm_pendulum").is_dir():
        pytest.skip(f"multiarm_pendulum is not in {public.folder()}")
    whole = public.load("multiarm_pendulum")["double"][0]
    done = dn.recordings.differentiate(whole.replace(qd=None)[:20000])
    robot = shipped("multiarm_double_pendulum")
    predicted = np.asarray(dn.forward_dynamics(robot, done.q, done.qd, -np.asarray(robot.damping) * done.qd))
    unexplained = np.mean((predicted - done.qdd) ** 2, 0) / np.var(done.qdd, 0)
    assert np.all(unexplained < 1e-3), unexplained
