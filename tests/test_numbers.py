"""Numbers at the edge: chains without mass, masses from 1e-9 to 1e9 kg. Results are finite, or it is said why not."""

import warnings

import jax
import numpy as np
import pytest

import diffnea as dn

LINK = """<link name="l{k}">{body}</link>
<joint name="j{k}" type="revolute"><parent link="{parent}"/><child link="l{k}"/>
<origin xyz="0 0 -0.2"/><axis xyz="0 1 0"/><limit lower="-3" upper="3" effort="5" velocity="5"/></joint>"""
BODY = """<inertial><origin xyz="0 0 -0.1"/><mass value="{m}"/>
<inertia ixx="{j}" iyy="{j}" izz="{j}" ixy="0" ixz="0" iyz="0"/></inertial>"""
Q, QD, TAU = np.full(3, 0.3), np.full(3, 0.1), np.full(3, 0.01)


def chain(folder, masses):
    """Three links in a row, and what loading them said."""
    links, parent = [], "base"
    for k, m in enumerate(masses):
        links.append(LINK.format(k=k, parent=parent, body=BODY.format(m=m, j=0.01 * m) if m else ""))
        parent = f"l{k}"
    path = folder / "chain.urdf"
    path.write_text(f'<robot name="chain"><link name="base"/>{"".join(links)}</robot>')
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        return dn.load_robot(path), [str(each.message) for each in said]


@pytest.mark.parametrize("masses", [(1, 0, 1), (1e-9,) * 3, (1e9,) * 3, (1e9, 1e-9, 1), (1e-9, 1, 1e9)], ids=str)
def test_what_mass_moves_is_finite(masses, tmp_path):
    robot, said = chain(tmp_path, masses)
    assert said == []
    qdd = dn.forward_dynamics(robot, Q, QD, TAU)
    found = (qdd, dn.inverse_dynamics(robot, Q, QD, qdd), dn.mass_matrix(robot, Q), dn.energy(robot, Q, QD))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))
    size = max(float(np.abs(dn.inverse_dynamics(robot, Q, QD, np.zeros(3))).max()), 0.01)
    np.testing.assert_allclose(found[1], TAU, atol=1e-9 * size)


@pytest.mark.parametrize(("masses", "named"), [((0, 0, 0), ["j0", "j1", "j2"]), ((1, 1, 0), ["j2"])], ids=str)
def test_what_no_mass_moves_is_named_and_no_roll_out_hides_it(masses, named, tmp_path):
    robot, said = chain(tmp_path, masses)
    joints = ", ".join(f'"{joint}"' for joint in named)
    assert len(said) == 1 and f"no mass moves with {joints}: no forward dynamics there" in said[0]
    assert np.isfinite(dn.inverse_dynamics(robot, Q, QD, TAU)).all()
    run = dn.rollout(dn.Model(robot), Q, QD, None, 0.01, steps=5)
    assert run.diverged_at == pytest.approx(0.01)
