"""What README and docs show runs: commands and Python, in a folder with the files that they speak of."""

import html
import importlib.util
import io
import re
import runpy
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import diffnea as dn

ROOT = Path(__file__).parent.parent
PAGES = sorted(path for path in [ROOT / "README.md", *ROOT.glob("docs/*.md")] if "```python" in path.read_text())
# What pages take for granted: an example is of a robot of one's own.
SETTING = """
import jax, numpy as np, diffnea as dn
jax.config.update("jax_enable_x64", True)
robot = dn.load_robot("guess.urdf")
recording = run1 = run2 = rec1 = rec2 = rec3 = dn.load_recording("swing.csv", robot)
t, q, qd, u = recording.time, recording.q, recording.q, recording.u
q0 = qd0 = np.zeros(2)
"""
COLUMNS = '[joints]\ncart = { q = "q.cart" }\npole = { q = "q.pole" }\n'


def blocks(page: Path) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))


def shell(page: Path, first: str) -> list[str]:
    """An indented block of commands that begins with these words, comments left out."""
    lines = page.read_text().split("\n")
    start = next(k for k, line in enumerate(lines) if line.startswith(f"    {first}"))
    count = next(k for k, line in enumerate(lines[start:]) if not line.startswith("    "))
    return [line.strip() for line in lines[start : start + count]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the README's commands have been typed."""
    here = tmp_path_factory.mktemp("newcomer")
    (here / "src").symlink_to(ROOT / "src")
    shutil.copytree(ROOT / "examples", here / "examples")
    commands = shell(ROOT / "README.md", "export PATH")
    path = f"export PATH={Path(sys.executable).parent}:$PATH"
    done = subprocess.run(
        ["bash", "-ec", "\n".join([path, *commands[1:]])], cwd=here, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "accepted" in done.stdout
    shutil.copy(here / "swing.csv", here / "run.csv")
    (here / "panda.urdf").write_text((here / "guess.urdf").read_text())
    return here


def test_the_readme_s_commands_leave_what_they_promise(folder):
    found, truth = dn.load_robot(folder / "out" / "identified.urdf"), dn.systems.cartpole().robot
    # Nothing known drives it, so that only ratios are determined, as the README says.
    ratios = [np.asarray(M / M[1, 1]) for M in (dn.mass_matrix(robot, [0.0, 0.0]) for robot in (found, truth))]
    assert np.allclose(*ratios, rtol=1e-3)
    assert (folder / "out" / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.stem, marks=[] if page.stem == "README" else pytest.mark.slow) for page in PAGES],
)
def test_python_of_a_page_runs(folder, page):
    text = blocks(page)
    if "columns=" in text:
        (folder / "map.toml").write_text(COLUMNS)
        shutil.copy(folder / "swing.csv", folder / "log.csv")
    if "public.load" in text:
        text = text[: text.index("from diffnea.recordings import public")]  # needs recordings that are not here
    done = subprocess.run(
        [sys.executable, "-c", SETTING + text], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


# The built pages ----------------------------------------------------------------------------------------------------


def hook(name):
    """A module of docs/hooks, which mkdocs loads by its path."""
    specification = importlib.util.spec_from_file_location(name, ROOT / "docs" / "hooks" / f"{name}.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_start_page_says_what_the_readme_says():
    readme = hook("readme")
    assert readme.MARK in (ROOT / "docs" / "index.md").read_text()
    part = readme.first_part()
    assert "images/page-of-a-fit.png" in part and part.count("| ") > 50 and "docs/" not in re.sub(r"\[docs/", "", part)
    inside = re.findall(r"\]\(([^)#:]+\.(?:md|png))", part)
    assert len(inside) >= 5 and all((ROOT / "docs" / name).exists() for name in inside)


def test_every_equation_can_be_typeset():
    pytest.importorskip("latex2mathml", reason="the docs extra is not installed")
    typeset = hook("mathml").on_page_content
    text = (ROOT / "docs" / "maths.md").read_text()
    shown = re.findall(r"\$\$\n(.*?)\n\$\$", text, re.S)
    assert len(shown) >= 8
    for equation in shown:
        built = typeset(f'<div class="arithmatex">\\[{html.escape(equation)}\\]</div>')
        assert built.startswith('<div class="equation"><math') and "\\" not in re.sub(
            r"<annotation.*?</annotation>", "", built
        )


def test_links_to_other_sites_can_be_asked_for(monkeypatch):
    """Also those with letters beyond ASCII, as badges have."""
    links = runpy.run_path(str(ROOT / ".ci/links.py"))
    asked = []
    monkeypatch.setattr(urllib.request, "urlopen", lambda request, **_: asked.append(request.full_url) or io.BytesIO())
    assert links["links"]() and not [each for each in links["links"]() if links["fault"](each)]
    assert all(each.isascii() for each in asked) and any("%E2%80%93" in each for each in asked)
