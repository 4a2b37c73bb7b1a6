"""The robots of the benchmark: a cartpole, a Furuta pendulum, the Panda with seven joints and Talos with 32.

And larger ones, for what grows with joints: G1 with 29, Talos with its fingers, 44, and Romeo with his, 55.
"""

import xml.etree.ElementTree as ET
from dataclasses import replace
from importlib.metadata import files
from pathlib import Path

import numpy as np
from contestants import Files

import diffnea as dn

ROBOTS = ("cartpole", "furuta", "panda", "talos")
SHIPPED = {"panda": "panda.urdf", "talos": "talos_reduced.urdf"}  # in example-robot-data
SHIPPED |= {
    "a1": "a1.urdf",
    "g1": "g1_29dof_rev_1_0.urdf",
    "talos_fingers": "talos_full_v2.urdf",
    "romeo": "romeo.urdf",
}


def link(name: str, mass: float, centre: str, moments: tuple[float, float, float]) -> str:
    """A link of a URDF file."""
    inertia = 'ixx="{}" iyy="{}" izz="{}" ixy="0" ixz="0" iyz="0"'.format(*moments)
    parts = f'<origin xyz="{centre}" rpy="0 0 0"/><mass value="{mass}"/><inertia {inertia}/>'
    return f'<link name="{name}"><inertial>{parts}</inertial></link>'


def joint(name: str, kind: str, parent: str, child: str, origin: str, axis: str) -> str:
    """A joint of a URDF file. Its limits are wide; without any, Pinocchio would make two numbers of a turning one."""
    ends = f'<parent link="{parent}"/><child link="{child}"/><origin xyz="{origin}"/><axis xyz="{axis}"/>'
    limit = '<limit lower="-1e3" upper="1e3" effort="1e3" velocity="1e3"/>'
    return f'<joint name="{name}" type="{kind}">{ends}{limit}</joint>'


CARTPOLE = (
    '<robot name="cartpole"><link name="rail"/>'
    + link("cart", 0.57, "0 0 0", (0.0008, 0.0012, 0.0014))
    + link("pole", 0.127, "0 0 -0.1778", (0.0012, 0.0012, 3e-6))
    + joint("slide", "prismatic", "rail", "cart", "0 0 0", "1 0 0")
    + joint("hinge", "revolute", "cart", "pole", "0 0 0", "0 1 0")
    + "</robot>"
)
FURUTA = (
    '<robot name="furuta"><link name="post"/>'
    + link("arm", 0.095, "0.0425 0 0", (1e-6, 5.7e-5, 5.7e-5))
    + link("pendulum", 0.024, "0 0 -0.0645", (3.3e-5, 3.3e-5, 1e-6))
    + joint("turn", "revolute", "post", "arm", "0 0 0.1", "0 0 1")
    + joint("swing", "revolute", "arm", "pendulum", "0.085 0 0", "1 0 0")
    + "</robot>"
)


def source(robot: str) -> str:
    """A robot's URDF text; the Panda's fingers are fixed, those of others free."""
    if robot not in SHIPPED:
        return {"cartpole": CARTPOLE, "furuta": FURUTA}[robot]
    (path,) = (file.locate() for file in files("example-robot-data") or () if file.name == SHIPPED[robot])
    root = ET.parse(str(path)).getroot()
    for element in root.iter("joint"):
        if element.get("name", "").startswith("panda_finger"):
            element.set("type", "fixed")
        for coupling in element.findall("mimic"):
            element.remove(coupling)
    if robot == "romeo":  # whose fingers' links have no mass, with which peers do not compute
        light = ET.fromstring(link("", 0.01, "0.01 0 0", (1e-5, 1e-5, 1e-5)))
        for element in root.iter("link"):
            if "Finger" in element.get("name", "") or "Thumb" in element.get("name", ""):
                for given in element.findall("inertial"):
                    element.remove(given)
                element.extend(light)
    return ET.tostring(root, encoding="unicode")


def write_files(robot: str, folder: str) -> Files:
    """A robot for everyone: fixed joints merged, no damping, no dry friction, a base with mass, as frax wants one."""
    path = Path(folder) / f"{robot}.urdf"
    path.write_text(source(robot))
    found = dn.load_robot(path)
    still = np.zeros(found.num_joints)
    found = replace(found, damping=still, friction=still)
    dn.save_robot(found, path.with_suffix(".xml"), fresh=True)
    dn.save_robot(found, path, fresh=True)
    path.write_text(path.read_text().replace('<link name="base"/>', link("base", 1.0, "0 0 0", (1, 1, 1))))
    return Files(str(path), str(path.with_suffix(".xml")), found.joint_names)
