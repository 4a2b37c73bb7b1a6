"""Tuned numbers of identification: few, in one place, each read by the code, and none by the name of another."""

import ast
from collections import defaultdict
from dataclasses import fields
from pathlib import Path

import diffnea
from diffnea.identify.options import Options

IDENTIFY = Path(diffnea.__file__).parent / "identify"
MOST = 60


def options():
    usual = Options()
    return [(room.name, each.name) for room in fields(usual) for each in fields(getattr(usual, room.name))]


def test_there_are_few_and_each_is_read():
    assert len(options()) <= MOST
    read = {
        node.attr
        for path in IDENTIFY.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and path.name != "options.py"
    }
    own = {
        node.attr
        for node in ast.walk(ast.parse((IDENTIFY / "options.py").read_text()))
        if isinstance(node, ast.Attribute)
    }
    assert [name for _, name in options() if name not in read | own] == []


def test_a_constant_of_a_room_has_one_meaning():
    """Of numbers: two modules that give one name different values confuse who reads both."""
    values = defaultdict(set)
    for path in IDENTIFY.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id.lstrip("_")
                if name.isupper():
                    values[name].add(ast.unparse(node.value))
    assert {name: found for name, found in values.items() if len(found) > 1} == {}


def test_types_are_said():
    """`Any` says nothing: it stays where JSON and generic type checks are about anything at all."""
    found = sum(
        isinstance(node, ast.Name) and node.id == "Any"
        for path in IDENTIFY.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
    )
    assert found < 30
