"""Joint limits: positions that reach or pass them are found, as near as the position noise allows, and no others."""

from pathlib import Path

import numpy as np
import pytest

import diffnea as dn
from diffnea.cli import inputs
from diffnea.cli.commands.check import finding
from diffnea.recordings import at_limits, diagnose, limit_contacts

PANDA = Path(__file__).resolve().parents[2] / "shared" / "cases" / "panda"
ROBOT = inputs.read_robot("staubli_tx40")
LOWER, UPPER = np.asarray(ROBOT.limits.lower), np.asarray(ROBOT.limits.upper)
TIME = np.arange(2000) / 250
WAVE = np.sin(2 * np.pi * TIME / 4)[:, None]  # at +1 after 1 s and 5 s, at −1 after 3 s and 7 s


def swinging(share, noise=1e-5, **more):
    """All joints about the middle of their range, as far as a share of half of it."""
    q = (LOWER + UPPER) / 2 + share * WAVE * (UPPER - LOWER) / 2
    q = q + noise * np.random.default_rng(0).normal(size=q.shape)
    return dn.Recording(time=TIME, q=q, u=q, joint_names=ROBOT.joint_names, **more)


def test_positions_at_a_limit_are_those_within_the_noise_of_it():
    noise = 1e-4
    recording = swinging(1.0, noise)
    found = at_limits(recording, ROBOT.limits)
    assert found.shape == recording.q.shape and found.dtype == bool
    beyond = (recording.q >= UPPER) | (recording.q <= LOWER)
    near = (recording.q >= UPPER - 6 * noise) | (recording.q <= LOWER + 6 * noise)
    assert beyond.any(0).all() and not (beyond & ~found).any() and not (found & ~near).any()


def test_what_stays_inside_is_not_named():
    recording = swinging(1 - 1e-3)
    assert not at_limits(recording, ROBOT.limits).any() and limit_contacts(recording, ROBOT) == ()
    assert at_limits(recording, ROBOT.limits, noise=np.full(6, 0.01)).any()  # with such noise it may be there


def test_joints_without_a_range_have_no_limits():
    free = inputs.read_robot("furuta")
    q = np.column_stack([50 * WAVE[:, 0], 50 * WAVE[:, 0]])
    unlimited = ~(np.isfinite(free.limits.lower) & np.isfinite(free.limits.upper))
    found = at_limits(dn.Recording(time=TIME, q=q), free.limits, noise=[0.0, 0.0])
    assert unlimited.any() and not found[:, unlimited].any()


def test_a_contact_says_joint_limit_and_how_long():
    found = limit_contacts(swinging(1.02), ROBOT)
    assert [(each.joint, each.side) for each in found] == [
        (joint, side) for side in ("lower", "upper") for joint in ROBOT.joint_names
    ]
    seconds = 2 * 4 * np.arccos(1 / 1.02) / np.pi  # a period of 4 s, twice
    for each in found:
        assert each.times == 2 and each.seconds == pytest.approx(seconds, rel=0.05)
    last = found[-1]
    assert last.limit == UPPER[-1] and last.furthest > last.limit
    assert str(last).startswith(
        f"{last.joint}: reaches {last.furthest:.4g} rad, its upper limit is {UPPER[-1]:.4g} rad"
    )


@pytest.mark.parametrize(("run", "joints"), [("run0_mcap", []), ("run1_mcap", ["panda_joint4"])])
def test_a_check_names_the_joint_that_a_bag_drives_into_its_limit(run, joints):
    if not PANDA.exists():
        pytest.skip("no cases/panda in shared beside the checkout")
    pytest.importorskip("mcap", reason="the formats extra is not installed")
    robot = inputs.read_robot(str(PANDA / "panda.urdf"), lock=["panda_finger_joint1", "panda_finger_joint2"])
    (recording,) = inputs.read_recordings([str(PANDA / run)], robot, measured=True)
    found = finding(recording, diagnose(recording), robot)
    assert [each["joint"] for each in found["limit_contacts"]] == joints
    named = [line for line in found["problems"] if "limit" in line]
    assert len(named) == len(joints)
    for line in named:
        assert line.startswith("panda_joint4: reaches -0.06693 rad, its upper limit is -0.0698 rad; it is there for ")
