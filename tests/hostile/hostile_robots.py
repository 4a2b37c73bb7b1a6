"""Hostile robot files: URDF and MJCF."""

import os
from pathlib import Path

from hostile import Case, bytes_of, damaged

ARM = """<robot name="arm"><link name="base"/>
<link name="upper"><inertial><origin xyz="0 0 0.1"/><mass value="2"/>
<inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.01"/></inertial></link>
<link name="lower"><inertial><origin xyz="0 0 0.2" rpy="0 0.1 0"/><mass value="1"/>
<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.005"/></inertial></link>
<joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><origin xyz="0 0 0.3"/>
<axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="10" velocity="5"/><dynamics damping="0.1" friction="0"/></joint>
<joint name="elbow" type="continuous"><parent link="upper"/><child link="lower"/><origin xyz="0 0 0.4"/>
<axis xyz="0 1 0"/></joint></robot>
"""
BODY = """<mujoco model="arm">{head}<worldbody>{before}<body name="a"><joint name="shoulder" axis="0 1 0"/>
<inertial pos="0 0 .1" mass="2" diaginertia=".02 .02 .01"/>{inside}<body name="b" pos="0 0 .4">
<joint name="elbow" axis="0 1 0"/><geom type="capsule" size=".05" fromto="0 0 0 0 0 .3" mass="1"/></body></body>
</worldbody>{tail}</mujoco>
"""


def mjcf(head: str = "", before: str = "", inside: str = "", tail: str = "") -> str:
    return BODY.format(head=head, before=before, inside=inside, tail=tail)


def changed(old: str, new: str) -> str:
    assert old in ARM
    return ARM.replace(old, new, 1)


def cases() -> list[Case]:
    """All of them."""
    return [*_shared(), *_encodings(), *_urdf(), *_numbers(), *_mjcf(), *_sizes(), *_mutilated()]


def _case(name: str, content: bytes | str, says: str | None) -> Case:
    return Case(name, "robot", bytes_of(content), says)


def _shared():
    """What is no file at all, or no XML."""
    yield Case("fifo.urdf", "robot", os.mkfifo, "is a pipe; give a regular file")
    yield Case("zero.urdf", "robot", lambda path: path.symlink_to("/dev/zero"), "is a device; give a regular file")
    yield Case("random.xml", "robot", lambda path: path.symlink_to("/dev/urandom"), "is a device")
    yield Case("folder.urdf", "robot", Path.mkdir, "is a folder")
    yield Case("sparse.urdf", "robot", _sparse, "is larger than 32 MiB")
    yield _case("empty.urdf", b"", "no element found")
    yield _case("zeros.urdf", bytes(1000), "is not well-formed")
    yield _case("text.urdf", "hello\n", "is not well-formed")
    yield _case("png.urdf", b"\x89PNG\r\n\x1a\n" + bytes(50), "is not well-formed")
    yield _case("page.urdf", "<html><body/></html>", "root element is <html>")
    yield _case("entity.urdf", '<!DOCTYPE r [<!ENTITY a "b">]><robot name="&a;"/>', "has a document type")
    laughs = "".join(f'<!ENTITY l{k} "{f"&l{k - 1};" * 10}">' for k in range(1, 10))
    yield _case("laughs.urdf", f'<!DOCTYPE r [<!ENTITY l0 "ha">{laughs}]><robot name="&l9;"/>', "has a document type")
    yield _case("outside.urdf", '<!DOCTYPE r SYSTEM "file:///etc/passwd"><robot name="a"/>', "has a document type")
    yield _case("deep.urdf", "<robot>" + "<a>" * 100_000 + "</a>" * 100_000 + "</robot>", "elements within another")
    yield _case("deep.xml", "<mujoco>" + "<a>" * 100_000 + "</a>" * 100_000 + "</mujoco>", "elements within another")
    yield _case("many.urdf", "<robot>" + "<a/>" * 300_000 + "</robot>", "has more than 50000 elements")
    yield _case("attributes.urdf", "<robot " + " ".join(f'a{k}="0"' for k in range(50_000)) + "/>", "has no link")
    yield _case("name.urdf", changed('"shoulder"', '"' + "x" * 1_000_000 + '"').replace("revolute", "ball"), "is .ball")
    yield _case("lines.urdf", changed('"shoulder" type="revolute"', '"a&#10;b&#9;c" type="ball"'), 'joint "a b c"')
    yield _case("quotes.urdf", "<robot name='" + '"' * 100_000 + "'/>", "has no link")


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _encodings():
    for (
        name
    ) in "hex base64 zlib bz2 uu quopri rot13 idna punycode utf-7 unicode_escape raw_unicode_escape undefined".split():
        text = f'<?xml version="1.0" encoding="{name}"?>' + ARM
        yield _case(f"{name}.urdf", text, "declares the encoding")
    yield _case("unknown.urdf", '<?xml version="1.0" encoding="klingon"?>' + ARM, "which is unknown")
    yield _case("ascii.urdf", '<?xml version="1.0" encoding="ascii"?>' + ARM.replace("arm", "für"), "is not ascii text")
    yield _case("utf-16.urdf", '<?xml version="1.0" encoding="utf-16"?>' + ARM, "")
    yield _case("half.urdf", b"\xff\xfe" + ARM.encode("utf-16-le")[:-1], "is not utf-16-le text")
    yield _case("surrogate.urdf", b"\xff\xfe" + b"\x00\xd8" + ARM.encode("utf-16-le"), "is not utf-16-le text")
    yield _case("latin.urdf", ARM.replace('"arm"', '"für"').encode("latin-1"), "is not well-formed")
    yield _case("nul.urdf", ARM.replace("arm", "a\0m"), "is not well-formed")


def _urdf():
    """URDF that is XML and no robot."""
    yield _case("bare.urdf", "<robot/>", "has no link")
    yield _case("unnamed.urdf", "<robot><link/></robot>", "has no name")
    yield _case("twice.urdf", changed('<link name="lower">', '<link name="upper">'), 'two links are named "upper"')
    yield _case("joints.urdf", changed('joint name="elbow"', 'joint name="shoulder"'), "two joints are named")
    yield _case("parent.urdf", changed('parent link="upper"', 'parent link="uper"'), 'did you mean "upper"')
    yield _case("loop.urdf", changed('<parent link="base"/>', '<parent link="lower"/>'), "loop|have no parent")
    yield _case("self.urdf", changed('<parent link="upper"/>', '<parent link="lower"/>'), "loop|have no parent")
    yield _case("axis.urdf", changed('<axis xyz="0 1 0"/>', '<axis xyz="0 0 0"/>'), "its axis is 0 0 0")
    yield _case("tiny.urdf", changed('<axis xyz="0 1 0"/>', '<axis xyz="1e-320 0 0"/>'), None)
    yield _case("xacro.urdf", changed('value="2"', 'value="${m}"'), "is xacro")
    yield _case("limits.urdf", changed('lower="-1"', 'lower="2"'), None)
    yield _case("floating.urdf", changed('"revolute"', '"floating"'), None)
    yield _case("inertials.urdf", changed("<inertial>", "<inertial/><inertial>"), "has 2 <inertial>")
    yield _case("massless.urdf", changed('<mass value="2"/>', ""), "has no <mass>")
    yield _case("flat.urdf", changed('ixx="0.02"', 'ixx="0.2"'), "triangle inequality")
    yield _case("negative.urdf", changed('<mass value="2"/>', '<mass value="-2"/>'), "its mass is -2")
    yield _case("weightless.urdf", changed('<mass value="2"/>', '<mass value="0"/>'), "its mass is 0 but")
    yield _case("damping.urdf", changed('damping="0.1"', 'damping="-1"'), "its damping is -1")
    chain = "".join(_link(k) for k in range(1999))
    yield _case("chain.urdf", f'<robot name="c"><link name="l-1"/>{chain}</robot>', None)
    star = "".join(_link(k, 0) for k in range(1, 3000))
    yield _case("star.urdf", f'<robot name="c"><link name="l0"/>{star}</robot>', "at most 2000 are read")


def _link(k: int, parent: int | None = None) -> str:
    parent = k - 1 if parent is None else parent
    return (
        f'<link name="l{k}"/><joint name="j{k}" type="revolute"><parent link="l{parent}"/><child link="l{k}"/></joint>'
    )


def _numbers():
    """Numbers that no robot has."""
    places = {
        "mass": '<mass value="2"/>', "tensor": 'ixx="0.02"', "centre": 'xyz="0 0 0.1"', "origin": 'xyz="0 0 0.3"',
        "turn": 'rpy="0 0.1 0"', "axis": '<axis xyz="0 1 0"/>', "damping": 'damping="0.1"', "friction": 'friction="0"',
    }  # fmt: skip
    for place, text in places.items():
        head, _, rest = text.partition('="')
        words = rest.partition('"')[0].split()
        for value in ("1e200", "1e400", "-1e150", "nan", "inf", "0x10", "1,5", "١", "1_0", ""):
            new = f'{head}="{" ".join([*words[:-1], value])}"' + rest.partition('"')[2]
            said = "must stand there|is too large|must be|at least 0|its axis is"
            yield _case(f"{place} {value or 'none'}.urdf", changed(text, new), said)
    yield _case("many numbers.urdf", changed('xyz="0 0 0.3"', f'xyz="{"0 " * 500_000}"'), "3 numbers must stand there")
    yield _case("digits.urdf", changed('value="2"', f'value="{"1" * 100_000}"'), "is too large")
    yield _case("fixed.urdf", changed('type="continuous"', 'type="fixed"').replace("0 0 0.4", "1e12 0 0"), None)


def _mjcf():
    """MJCF that MuJoCo refuses, or that is no robot."""
    yield _case("bare.xml", "<mujoco/>", None)
    yield _case("element.xml", mjcf(tail="<nothing/>"), "unrecognized")
    yield _case("attribute.xml", mjcf(before='<geom colour="red"/>'), "unrecognized")
    yield _case("free.xml", mjcf(before='<body><freejoint/><geom size="1"/></body>'), None)
    yield _case("ball.xml", mjcf(before='<body><joint type="ball"/><geom size="1"/></body>'), None)
    yield _case("weld.xml", mjcf(tail='<equality><weld body1="a" body2="b"/></equality>'), None)
    yield _case("nan.xml", mjcf(before='<geom size="nan"/>'), "use finite numbers")
    for name, inertia in {
        "moment": 'mass="1" diaginertia=".02 inf .01"',
        "moment below": 'mass="1" diaginertia="-inf .02 .01"',
        "product": 'mass="1" fullinertia="1 1 1 0 inf 0"',
        "mass": 'mass="inf" diaginertia=".02 .02 .02"',
    }.items():
        body = f'<body name="c"><joint/><inertial pos="0 0 0" {inertia}/></body>'
        yield _case(f"infinite {name}.xml", mjcf(inside=body), "finite")
    yield _case("same.xml", mjcf(before='<body name="a"/>'), "repeated name")
    yield _case("class.xml", mjcf(before='<geom class="nothing" size="1"/>'), "nothing")
    yield _case("joint.xml", mjcf(tail='<actuator><motor joint="nothing"/></actuator>'), "nothing")
    yield _case("mesh.xml", mjcf(before='<body><joint/><geom type="mesh" mesh="no"/></body>'), "no")
    yield _case("plugin.xml", mjcf(head='<extension><plugin plugin="a.b"/></extension>'), "plugin")
    yield _case("itself.xml", mjcf(head='<include file="itself.xml"/>'), "includes more than|itself|already included")
    yield _case("absent.xml", mjcf(head='<include file="no.xml"/>'), "no.xml")
    yield _case("device.xml", mjcf(head='<include file="/dev/zero"/>'), "is a device")
    yield _case("model.xml", mjcf(head='<asset><model name="m" file="/dev/zero"/></asset>'), "is a device")
    device = '<asset><mesh name="m" file="/dev/zero"/></asset>'
    yield _case(
        "mesh device.xml", mjcf(device, inside='<body><joint/><geom type="mesh" mesh="m"/></body>'), "regular|m"
    )
    yield _case("texture.xml", mjcf('<asset><texture name="t" type="2d" file="/dev/zero"/></asset>'), None)
    yield _case("passwd.xml", mjcf(head='<include file="/etc/passwd"/>'), "well-formed")
    for value in ("1e200", "1e300", "-1e308"):
        yield _case(f"far {value}.xml", mjcf(inside=f'<body pos="{value} 0 0"><geom size="1"/></body>'), "")
        yield _case(f"size {value}.xml", mjcf(inside=f'<geom size="{value}"/>'), None)
        heavy = f'<body><joint/><inertial pos="0 0 0" mass="{value}" diaginertia="1 1 1"/></body>'
        yield _case(f"heavy {value}.xml", mjcf(before=heavy), "")
        yield _case(f"armature {value}.xml", mjcf(head=f'<default><joint armature="{value}"/></default>'), "")
        yield _case(f"gravity {value}.xml", mjcf(head=f'<option gravity="0 0 {value}"/>'), "")


def _sizes():
    """MJCF that asks for the whole memory."""
    for name in ("nuser_body", "nuser_jnt", "nuser_geom", "nuser_actuator", "nkey", "nuserdata", "njmax", "nconmax"):
        yield _case(f"{name}.xml", mjcf(head=f'<size {name}="2000000000"/>'), None)
    yield _case("memory.xml", mjcf(head='<size memory="1000G"/>'), None)
    yield _case("minus.xml", mjcf(head='<size nkey="-5"/>'), None)
    copies = '<replicate count="{}"><body><joint/><geom size="1"/></body></replicate>'
    yield _case("copies.xml", mjcf(before=copies.format(100_000)), "copies")
    yield _case("more copies.xml", mjcf(before=copies.format("9" * 50)), "copies")
    nested = '<replicate count="50">' * 4 + "<geom size='1'/>" + "</replicate>" * 4
    yield _case("nested.xml", mjcf(before=nested), "copies")
    yield _case("bodies.xml", mjcf(before='<body><joint/><geom size="1"/></body>' * 2500), "more than 2000 bodies")
    field = '<asset><hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/></asset>'
    yield _case("field.xml", mjcf(field, before='<geom type="hfield" hfield="h"/>'), "height field has more")
    texture = '<asset><texture name="t" builtin="flat" type="2d" width="1000000" height="1000000"/></asset>'
    yield _case("texture size.xml", mjcf(texture), None)
    yield _case("sensor.xml", mjcf(tail='<sensor><user dim="2000000000"/></sensor>'), None)
    states = '<actuator><general joint="elbow" dyntype="user" actdim="2000000000"/></actuator>'
    yield _case("states.xml", mjcf(tail=states), "states; at most 1000")
    yield _case(
        "samples.xml", mjcf(tail='<actuator><motor joint="elbow" nsample="2000000000" delay="1"/></actuator>'), None
    )
    mesh = '<asset><mesh name="m" builtin="supersphere" params="5000 1 1"/></asset>'
    yield _case("mesh size.xml", mjcf(mesh, inside='<geom type="mesh" mesh="m"/>'), "params above 500")
    camera = '<camera name="c" resolution="100000 100000"/>'
    yield _case("camera.xml", mjcf(inside=camera, tail='<sensor><rangefinder camera="c"/></sensor>'), None)
    yield _case("text.xml", mjcf(tail=f'<custom><text name="t" data="{"x" * 1_000_000}"/></custom>'), None)
    composite = '<composite type="cable" count="100000 1 1" size="1"><geom size=".1" type="capsule"/></composite>'
    yield _case("composite.xml", mjcf(inside=composite), None)
    flex = '<flexcomp name="f" type="grid" count="1000 1000 1000" spacing="1 1 1"/>'
    yield _case("flex.xml", mjcf(inside=flex), "")


def _mutilated():
    """Good files cut off, and with wrong bytes."""
    for name, text in (("cut.urdf", ARM), ("cut.xml", mjcf())):
        for share in (0.1, 0.5, 0.95):
            yield _case(f"{share} {name}", text[: int(share * len(text))], "is not well-formed")
        for seed in range(12):
            yield _case(f"damaged {seed} {name}", damaged(text.encode(), seed), None)
