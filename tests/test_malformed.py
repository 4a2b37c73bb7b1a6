"""Ten malformed variants or more of every way a robot may differ from a chain of hinges: each refused in one line."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_couplings import FINGERS, GRIPPER, LINK
from test_floating_fit import hopper
from test_free_base import CRAFT
from test_loops import BARS, CONNECT
from test_passive import CRANE

import diffnea as dn
from diffnea.cli.feet import feet_of
from diffnea.errors import DiffneaError
from diffnea.identify.floating.contacts import check_feet

FEWEST = 10


@dataclass(frozen=True)
class Malformed:
    """A feature, what is wrong with this one, and what reads it."""

    feature: str
    what: str
    read: Callable[[Path], Any]

    def __str__(self) -> str:
        return f"{self.feature}: {self.what}"


def file(text: str, ending: str = "xml", **said) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        (folder / f"robot.{ending}").write_text(text)
        return dn.load_robot(folder / f"robot.{ending}", **said)

    return read


def changed(feature: str, text: str, pairs: list[tuple[str, str]], ending: str = "xml") -> Iterator[Malformed]:
    for old, new in pairs:
        assert old in text, old
        yield Malformed(feature, new, file(text.replace(old, new, 1), ending))


WING = CRAFT.format(joint="<freejoint/>")
QUAT, ROOT = 'quat="0.6 0 0.8 0"', "<freejoint/>"


def free_joints() -> Iterator[Malformed]:
    yield from changed(
        "free joint",
        WING,
        [
            (QUAT, 'quat="0 0 0 0"'),
            (QUAT, 'quat="1 0 0"'),
            (QUAT, 'quat="1 0 0 nan"'),
            (QUAT, 'quat="inf 0 0 0"'),
            ('pos="1 2 3"', 'pos="1 2"'),
            ('pos="1 2 3"', 'pos="1e400 2 3"'),
            (ROOT, "<freejoint/><freejoint/>"),
            (ROOT, '<freejoint/><joint name="more"/>'),
            (ROOT, '<freejoint type="slide"/>'),
            (ROOT, '<freejoint name="shoulder"/>'),
            (ROOT, '<joint type="free" range="0"/>'),
            ('type="ball"', 'type="free"'),
        ],
    )
    yield Malformed("free joint", "base=loose", file(WING, base="loose"))
    yield Malformed("free joint", "lock at 0.3", file(WING, lock={"hull_joint": 0.3}))


def balls() -> Iterator[Malformed]:
    yield from changed(
        "ball",
        WING,
        [
            ('type="ball"', 'type="balls"'),
            ('type="ball"', 'type="ball" ref="1 2"'),
            ('type="ball"', 'type="ball" range="0 1 2"'),
            ('type="ball"', 'type="ball" range="1 2" limited="true"'),
            ('type="ball"', 'type="ball" stiffness="-1"'),
            ('type="ball"', 'type="ball" damping="-1"'),
            ('type="ball"', 'type="ball" armature="-1"'),
            ('pos="0.01 0.02 0"', 'pos="0.01 nan 0"'),
            ('pos="0.01 0.02 0"', 'pos="0.01"'),
            ('name="shoulder"', 'name="wrist"'),
            ('type="ball"', 'type="ball" axis="0 0"'),
        ],
    )
    yield Malformed("ball", "lock at 0.3", file(WING, lock={"shoulder": 0.3}))


CLAW = GRIPPER.format(
    links="".join(LINK.format(name, mass) for name, mass in (("palm", 2.0), ("l", 0.5), ("r", 0.7))), mimic="{mimic}"
)


def mimics() -> Iterator[Malformed]:
    for mimic in (
        '<mimic joint="lft"/>',
        '<mimic multiplier="2"/>',
        '<mimic joint=""/>',
        '<mimic joint="right"/>',
        '<mimic joint="left" multiplier="two"/>',
        '<mimic joint="left" multiplier="1 2"/>',
        '<mimic joint="left" multiplier=""/>',
        '<mimic joint="left" offset="nan"/>',
        '<mimic joint="left" offset="1e999"/>',
        '<mimic joint="left" offset="${a}"/>',
        '<mimic joint="left"/><mimic joint="wrist"/>',
    ):
        yield Malformed("mimic", mimic, file(CLAW.replace("{mimic}", mimic), "urdf"))
    led = 'velocity="1"/><mimic joint="wrist"/></joint>'
    chain = CLAW.replace("{mimic}", '<mimic joint="left"/>').replace('velocity="1"/></joint>', led, 1)
    yield Malformed("mimic", "mimic of a mimic", file(chain, "urdf"))
    held = CLAW.replace("{mimic}", '<mimic joint="left"/>')
    yield Malformed("mimic", "lock of a follower", file(held, "urdf", lock={"rihgt": 0.0}))


def equalities() -> Iterator[Malformed]:
    text = FINGERS.format(angle="radian", rest=0, ref=0)
    ends, curve = 'joint1="c" joint2="a"', 'polycoef="0.05 -0.4 0 0 0"'
    yield from changed(
        "equality of joints",
        text,
        [
            (ends, 'joint1="c" joint2="nobody"'),
            (ends, 'joint1="nobody" joint2="a"'),
            (ends, 'joint1="c" joint2="c"'),
            (ends, 'joint1="b" joint2="c"'),
            (ends, 'joint1="a" joint2="b"'),
            (ends, 'joint1="c" joint2="b"'),
            (ends, 'joint2="a"'),
            (curve, 'polycoef="0.05 nan 0 0 0"'),
            (curve, 'polycoef="0.05 inf 0 0 0"'),
            (curve, 'polycoef="0.05 -0.4 x 0 0"'),
            (curve, 'polycoef="0 1 2 3 4 5 6"'),
            (ends, ends + ' active="perhaps"'),
        ],
    )


def tendons() -> Iterator[Malformed]:
    text = CRANE.format(free="<freejoint/>", arm="0.5", weight="1", slack="0.1 0.2")
    part = '<joint joint="b" coef="0.7"/>'
    yield from changed(
        "tendon",
        text,
        [
            (part, '<joint joint="bb" coef="0.7"/>'),
            (part, '<joint joint="shoulder" coef="0.7"/>'),
            (part, '<joint joint="b" coef="nan"/>'),
            (part, '<joint joint="b" coef="inf"/>'),
            (part, '<joint joint="b" coef="much"/>'),
            (part, '<joint coef="0.7"/>'),
            (part, '<site site="b"/>'),
            ('springlength="0.1 0.2"', 'springlength="0.2 0.1"'),
            ('springlength="0.1 0.2"', 'springlength="0.1 nan"'),
            ('name="idle"', 'name="cable"'),
            ('<fixed name="idle"><joint joint="b" coef="1"/></fixed>', '<fixed name="idle"></fixed>'),
            ("</tendon>", '</tendon><actuator><motor tendon="cord"/></actuator>'),
            ("</tendon>", '</tendon><equality><tendon tendon1="cord"/></equality>'),
        ],
    )


def springs() -> Iterator[Malformed]:
    text = FINGERS.format(angle="radian", rest=0, ref=0)
    crane = CRANE.format(free="<freejoint/>", arm="0.5", weight="1", slack="0.1 0.2")
    for value in ("nine", "nan", "inf", "1e400", "-9"):
        yield from changed("spring", text, [('stiffness="9"', f'stiffness="{value}"')])
    for value in ("rest", "nan", "inf"):
        yield from changed("spring", text, [('stiffness="9"', f'stiffness="9" springref="{value}"')])
    for value in ("-30", "hard"):
        yield from changed("spring", crane, [('stiffness="30"', f'stiffness="{value}"')])
    yield from changed("spring", crane, [('gravcomp="1.5"', 'gravcomp="all"')])


def connects() -> Iterator[Malformed]:
    bars = BARS.format(tie=CONNECT)
    yield from changed(
        "connect",
        bars,
        [
            ('body2="rocker"', 'body2="rod"'),
            ('body2="rocker"', 'body2="nobody"'),
            ('body2="rocker"', 'body2="rocker" active="perhaps"'),
            ('anchor="0.5 0 0.1"', 'anchor="0.5 nan 0.1"'),
            ('anchor="0.5 0 0.1"', 'anchor="0.5 inf 0.1"'),
            ('anchor="0.5 0 0.1"', 'anchor="0.5 0"'),
            ('anchor="0.5 0 0.1"', ""),
            ('anchor="0.5 0 0.1"', 'anchor="far"'),
            ('body1="rod" ', ""),
            (CONNECT, '<connect site1="one" site2="two"/>'),
            (CONNECT, '<connect site1="one" body2="rocker" anchor="0 0 0"/>'),
        ],
    )


def welds() -> Iterator[Malformed]:
    for tie in (
        '<weld body1="rod" body2="rod"/>',
        '<weld body1="rod" body2="nobody"/>',
        '<weld body2="rod"/>',
        '<weld body1="crank" relpose="9 0 0 1 0 0 0"/>',
        '<weld body1="rod" body2="rocker" relpose="3 3 0 1 0 0 0"/>',
        '<weld body1="rod" body2="rocker" relpose="0 0 0.1 0 0 0 x"/>',
        '<weld body1="rod" body2="rocker" relpose="0 0 nan 1 0 0 0"/>',
        '<weld body1="rod" body2="rocker" relpose="0 0 0.1"/>',
        '<weld body1="rod" body2="rocker" anchor="0 0"/>',
        '<weld body1="rod" body2="rocker" torquescale="much"/>',
        '<weld site1="one" site2="two"/>',
    ):
        yield Malformed("weld", tie, file(BARS.format(tie=tie)))


def log(columns: dict[str, Any], rows: int = 40, column_map: str = "") -> Callable[[Path], Any]:
    """A CSV with these columns, each a number, a word or a list, read beside a map."""

    def read(folder: Path) -> Any:
        table = {"time": [0.01 * k for k in range(rows)], **columns}
        lists = [value if isinstance(value, list) else [value] * rows for value in table.values()]
        lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*lists, strict=True))]
        (folder / "log.csv").write_text("\n".join(lines) + "\n")
        (folder / "map.toml").write_text(column_map)
        return dn.load_recording(folder / "log.csv", columns=folder / "map.toml" if column_map else None)

    return read


POSE: dict[str, Any] = {"base.x": 0, "base.y": 0, "base.z": 1, "base.qw": 1, "base.qx": 0, "base.qy": 0, "base.qz": 0}
SENSOR: dict[str, Any] = {"imu.ax": 0, "imu.ay": 0, "imu.az": 9.81, "imu.gx": 0, "imu.gy": 0, "imu.gz": 0}
ROTORS: dict[str, Any] = {"rotor.1": 0.5, "rotor.2": 0.5, "battery": 3.7}


def without(columns: dict, *names: str) -> dict:
    return {name: value for name, value in columns.items() if name not in names}


def poses() -> Iterator[Malformed]:
    for what, columns, said in (
        ("no z", without(POSE, "base.z"), ""),
        ("no qw", without(POSE, "base.qw"), ""),
        ("no attitude", {name: POSE[name] for name in ("base.x", "base.y", "base.z")}, ""),
        ("zero quaternion", POSE | {"base.qw": 0}, ""),
        ("length two", POSE | {"base.qw": 2}, ""),
        ("length two in a row", POSE | {"base.qw": [1] * 20 + [2] * 20}, ""),
        ("word", POSE | {"base.x": "here"}, ""),
        ("infinite", POSE | {"base.x": "inf"}, ""),
        ("only velocities", {"base.vx": 0, "base.vy": 0}, ""),
        ("a name that is not known", POSE, '[base]\ncolumns = { "base.w" = "base.x" }\n'),
        ("a column that is not there", POSE, '[base]\ncolumns = { "base.x" = "pose_x" }\n'),
        ("columns as a list", POSE, '[base]\ncolumns = ["base.x"]\n'),
        ("no table", POSE, 'base = "odometry"\n'),
    ):
        yield Malformed("pose of a base", what, log(columns, column_map=said))


def sensors() -> Iterator[Malformed]:
    for what, columns, said in (
        ("no gyroscope", {name: SENSOR[name] for name in ("imu.ax", "imu.ay", "imu.az")}, ""),
        ("no az", without(SENSOR, "imu.az"), ""),
        ("word", SENSOR | {"imu.ax": "up"}, ""),
        ("infinite", SENSOR | {"imu.gx": "inf"}, ""),
        ("place of two", SENSOR, "[base]\nimu_position = [0, 0]\n"),
        ("place in words", SENSOR, '[base]\nimu_position = "front"\n'),
        ("place not finite", SENSOR, "[base]\nimu_position = [0, 0, nan]\n"),
        ("zero quaternion", SENSOR, "[base]\nimu_quaternion = [0, 0, 0, 0]\n"),
        ("quaternion of three", SENSOR, "[base]\nimu_quaternion = [1, 0, 0]\n"),
        ("quaternion of length two", SENSOR, "[base]\nimu_quaternion = [2, 0, 0, 0]\n"),
        ("key that is not known", SENSOR, "[base]\nimu_place = [0, 0, 0]\n"),
        ("topic of two", SENSOR, '[base]\nimu_topic = ["a", "b"]\n'),
    ):
        yield Malformed("inertial sensor", what, log(columns, column_map=said))
    for what, given in (
        ("place of two in Python", {"imu_position": (0.0, 0.0)}),
        ("zero quaternion in Python", {"imu_quaternion": (0.0, 0.0, 0.0, 0.0)}),
        ("place not finite in Python", {"imu_position": (0.0, 0.0, np.nan)}),
    ):
        both: dict[str, Any] = {"accelerometer": np.zeros((5, 3)), "gyroscope": np.zeros((5, 3))} | given
        yield Malformed("inertial sensor", what, lambda _, both=both: dn.BaseMotion(**both))


def rotors() -> Iterator[Malformed]:
    def flown(columns: dict[str, Any], **said) -> Callable[[Path], Any]:
        def read(folder: Path) -> Any:
            (folder / "drone.xml").write_text(
                '<mujoco model="drone"><worldbody><body name="d"><freejoint/><inertial pos="0 0 0" mass="1" '
                'diaginertia="1 1 1"/></body></worldbody></mujoco>'
            )
            return dn.fit(dn.load_robot(folder / "drone.xml"), [log(columns)(folder)], **said)

        return read

    whole = POSE | SENSOR | ROTORS
    for what, columns in (
        ("no pose", SENSOR | ROTORS),
        ("no gyroscope", POSE | ROTORS),
        ("word", whole | {"rotor.1": "fast"}),
        ("infinite", whole | {"rotor.2": "inf"}),
        ("negative", whole | {"rotor.1": -0.5}),
        ("percent", whole | {"rotor.1": 55}),
        ("battery in words", whole | {"battery": "full"}),
        ("battery empty", whole | {"battery": 0}),
        ("battery below zero", whole | {"battery": -3.7}),
        ("never flies", whole | {"rotor.1": 0, "rotor.2": 0}),
        ("too short", whole),
    ):
        yield Malformed("rotor", what, flown(columns))
    yield Malformed("rotor", "learns inertia", flown(whole, learn="inertia"))
    yield Malformed("rotor", "friction", flown(whole, actuator="viscous"))


def feet() -> Iterator[Malformed]:
    for word in ("l", "=l_shank", "l=", "l=:0,0,0", "l=l_shank:0,0", "l=l_shank:0,0,0,0", "l=l_shank:a,0,0",
                 "l=l_shank:0,0,0:0.02:1", "l=l_shank:0,0,0:wide"):  # fmt: skip
        yield Malformed("foot", word, lambda _, word=word: feet_of((word,)))
    yield Malformed("foot", "twice", lambda _: feet_of(("l=l_shank", "l=r_shank")))
    for what, foot in (
        ("no link", dn.Foot("toe")),
        ("point nan", dn.Foot("l_shank", (0.0, np.nan, 0.0))),
        ("radius below zero", dn.Foot("l_shank", radius=-0.02)),
        ("radius infinite", dn.Foot("l_shank", radius=np.inf)),
    ):
        yield Malformed("foot", what, lambda folder, foot=foot: check_feet(file(hopper())(folder), {"l": foot}))
    for what, columns in (
        ("contact in words", POSE | {"contact.l": "down"}),
        ("contact that is half", POSE | {"contact.l": 0.5}),
        ("contact of two", POSE | {"contact.l": 2}),
        ("contact below zero", POSE | {"contact.l": -1}),
    ):
        yield Malformed("foot", what, log(columns))


CASES = [
    *free_joints(),
    *balls(),
    *mimics(),
    *equalities(),
    *tendons(),
    *springs(),
    *connects(),
    *welds(),
    *poses(),
    *sensors(),
    *rotors(),
    *feet(),
]


def test_every_feature_has_ten():
    counts = Counter(case.feature for case in CASES)
    assert len(counts) == 12 and min(counts.values()) >= FEWEST, json.dumps(counts)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_malformed_feature_is_refused_in_one_line(case, tmp_path):
    with pytest.raises((DiffneaError, ValueError)) as caught:
        case.read(tmp_path)
    said = str(caught.value)
    assert said.isprintable() and 10 < len(said) < 600, said
    assert type(caught.value).__module__.startswith("diffnea") or said.partition(":")[0] in ("fit", "excite", "base")


def test_a_bag_of_ros_1_is_told_how_to_become_one_of_ros_2(tmp_path):
    (tmp_path / "run.bag").write_bytes(b"#ROSBAG V2.0\n" + bytes(100))
    with pytest.raises(dn.RecordingError, match=r"rosbags-convert --src run\.bag --dst run` .* give the folder run$"):
        dn.load_recording(tmp_path / "run.bag")
