"""Tuned numbers of identification: few, in one place, each read by the code, and none by the name of another."""

import ast
import re
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


def _takes_options(path):
    """Functions that have options as usual where none are given: home and name, with the place of that argument."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            names = [each.arg for each in node.args.args]
            if "options" in names and names.index("options") >= len(names) - len(node.args.defaults):
                yield (_module(path), node.name), names.index("options")


def _module(path):
    return ".".join(["diffnea.identify", *path.relative_to(IDENTIFY).with_suffix("").parts])


def _calls_without(path, taking):
    tree = ast.parse(path.read_text())
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    homes = {each.asname or each.name: (node.module, each.name) for node in nodes for each in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and homes.get(node.func.id) in taking:
            place = taking[homes[node.func.id]]
            if len(node.args) <= place and not any(each.arg == "options" for each in node.keywords):
                yield _module(path), node.func.id


def test_what_is_asked_for_reaches_all_that_decide():
    """Within a fit nobody falls back on usual options: what was asked for would do nothing."""
    paths = list(IDENTIFY.rglob("*.py"))
    taking = {key: place for path in paths for key, place in _takes_options(path)}
    assert {"split", "analyse", "judge"} <= {name for _, name in taking}
    assert [each for path in paths for each in _calls_without(path, taking)] == []


def constants(tree):
    """Names in capitals that a module gives a value, alone or several at once."""
    for node in tree.body:
        given = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in given:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from (each.id.lstrip("_") for each in names if isinstance(each, ast.Name) and _capital(each.id))


def _capital(name):
    return name.lstrip("_").isupper()


def twice(found):
    return {name: places for name, places in found.items() if len(places) > 1}


def test_a_constant_has_one_meaning():
    """And one home: a name that two modules give a value confuses who reads both."""
    found = defaultdict(list)
    for path in IDENTIFY.rglob("*.py"):
        for name in constants(ast.parse(path.read_text())):
            found[name].append(str(path.relative_to(IDENTIFY)))
    assert twice(found) == {}


def test_a_module_has_one_name_and_is_short():
    found = defaultdict(list)
    for path in IDENTIFY.rglob("*.py"):
        if path.name != "__init__.py":
            found[path.stem].append(str(path.relative_to(IDENTIFY)))
    assert twice(found) == {}
    long = {path.name: lines for path in IDENTIFY.rglob("*.py") if (lines := len(path.read_text().splitlines())) > 300}
    assert long == {}


def test_types_are_said():
    """`Any` says nothing: it stays where JSON and generic type checks are about anything at all."""
    found = sum(
        isinstance(node, ast.Name) and node.id == "Any"
        for path in IDENTIFY.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
    )
    assert found < 30


def test_the_page_names_constants_that_there_are():
    page = (Path(__file__).parent.parent / "docs" / "how-a-fit-runs.md").read_text()
    table = page[page.index("### Numbers that are no options") :].split("\n## ")[0]
    named = set(re.findall(r"`([A-Z][A-Z_]+)`", table))
    there = {name for path in IDENTIFY.rglob("*.py") for name in constants(ast.parse(path.read_text()))}
    assert len(named) > 30 and named <= there, named - there
    assert f"the {len(options())} fields" in page
