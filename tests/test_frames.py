"""Links by name: poses and Jacobians beside Pinocchio's, of fixed links too; bodies and numbers that are replaced."""

import jax
import jax.numpy as jnp
import numpy as np
import pinocchio
import pytest
from test_locking import written

import diffnea as dn

TOOL = (
    '<link name="tool"/><joint name="mount" type="fixed"><parent link="elbow_link"/><child link="tool"/>'
    '<origin xyz="0.03 -0.2 0.5" rpy="0.4 -0.1 2"/></joint>'
)


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    path = written(tmp_path_factory.mktemp("arm"))
    path.write_text(path.read_text().replace("</robot>", TOOL + "</robot>"))
    return path, dn.load_robot(path)


@pytest.fixture(scope="module")
def states():
    return np.random.default_rng(0).uniform(-1, 1, (3, 4))


def in_pinocchio(path, link, q):
    model = pinocchio.buildModelFromUrdf(str(path))
    configuration = []
    for joint, angle in zip(list(model.joints)[1:], q, strict=True):
        configuration += [np.cos(angle), np.sin(angle)] if joint.nq == 2 else [angle]
    configuration, data = np.array(configuration), model.createData()
    frame = model.getFrameId(link)
    pinocchio.framesForwardKinematics(model, data, configuration)
    J = pinocchio.computeFrameJacobian(model, data, configuration, frame, pinocchio.LOCAL_WORLD_ALIGNED)
    return data.oMf[frame].homogeneous, J


@pytest.mark.parametrize("link", ["tool", "elbow_link", "slide_link", "base"])
def test_poses_and_jacobians_are_pinocchio_s(arm, states, link):
    path, robot = arm
    poses, jacobians = dn.forward_kinematics(robot, states, link), dn.jacobian(robot, states, link)
    assert poses.shape == (3, 4, 4) and jacobians.shape == (3, 6, 4)
    for q, pose, J in zip(states, poses, jacobians, strict=True):
        there, theirs = in_pinocchio(path, link, q)
        assert np.allclose(pose, there, atol=1e-12) and np.allclose(J, theirs, atol=1e-12)


def test_a_point_moves_as_its_position_changes(arm, states):
    _, robot = arm
    point = jnp.array([0.1, 0.2, -0.3])

    def place(q):
        return (dn.forward_kinematics(robot, q, "tool") @ jnp.append(point, 1.0))[:3]

    assert np.allclose(dn.jacobian(robot, states[0], "tool", point)[:3], jax.jacfwd(place)(states[0]), atol=1e-12)


def test_without_a_link_all_moving_ones_come_in_order(arm, states):
    _, robot = arm
    rows = dn.forward_kinematics(robot, states[0])
    for name, row in zip(robot.link_names, rows, strict=True):
        assert np.allclose(row, dn.forward_kinematics(robot, states[0].tolist(), name), atol=1e-14)


def test_a_link_that_is_not_there_is_named_with_its_neighbour(arm, states):
    with pytest.raises(ValueError, match='has no link "tol".*did you mean "tool"'):
        dn.jacobian(arm[1], states[0], "tol")


def test_a_body_from_its_centre_is_the_same_body():
    inertia = np.array([[0.02, 0.001, 0.0], [0.001, 0.03, 0.002], [0.0, 0.002, 0.025]])
    body = dn.Inertia.from_com(2.0, [0.1, -0.2, 0.3], inertia)
    theirs = pinocchio.Inertia(2.0, np.array([0.1, -0.2, 0.3]), inertia).toDynamicParameters()
    assert np.allclose(body.parameters, theirs, atol=1e-15)
    assert np.allclose(body.com, [0.1, -0.2, 0.3]) and np.allclose(body.about_com, inertia)


def test_a_new_mass_keeps_centre_and_shape(arm):
    _, robot = arm
    heavier = robot.replace(link="slide_link", mass=3.0)
    before, after = (jax.tree.map(lambda rows: rows[1], each.inertia) for each in (robot, heavier))
    assert float(after.mass) == 3.0 and np.allclose(after.com, before.com)
    assert np.allclose(after.about_com, before.about_com * 3.0 / float(before.mass))
    moved = robot.replace(link="slide_link", com=[0.0, 0.0, 0.1])
    assert np.allclose(moved.inertia.com[1], [0, 0, 0.1])
    assert np.allclose(moved.inertia.about_com[1], before.about_com, atol=1e-12)
    others = [i for i in range(4) if i != 1]
    assert np.array_equal(heavier.inertia.parameters[np.array(others)], robot.inertia.parameters[np.array(others)])


def test_a_joint_s_numbers_are_replaced_by_name(arm):
    _, robot = arm
    assert robot.replace(joint="finger", armature=0.3).armature.tolist() == [0.0, 0.0, 0.0, 0.3]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"mass": 1.0}, "name one link or one joint"),
        ({"link": "wrist", "mass": 1.0}, 'no link "wrist"'),
        ({"joint": "finger", "mass": 1.0}, 'a joint has no "mass"'),
    ],
)
def test_what_cannot_be_replaced_is_said(arm, arguments, said):
    with pytest.raises(ValueError, match=said):
        arm[1].replace(**arguments)
