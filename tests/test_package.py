"""The package as a whole: what importing it does, and that its examples run."""

import importlib
import re
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path
from types import ModuleType

import pytest

HEAVY = ("mujoco", "pandas", "plotly", "ray", "pinocchio", "matplotlib", "tyro", "rich", "xacro")
EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def _python(*arguments: str, cwd: Path | None = None) -> str:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True, cwd=cwd).stdout


def test_importing_prints_nothing_sets_nothing_and_pulls_in_nothing_heavy():
    program = (
        "import sys, jax; before = dict(jax.config.values); import diffnea;"
        "assert dict(jax.config.values) == before;"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    assert _python("-c", program) == "[]\n"


def test_public_names_are_there():
    import diffnea

    for name in (
        "load_robot save_robot forward_dynamics inverse_dynamics mass_matrix energy regressor forward_kinematics "
        "inertial_parameters gravity_torque bias_torque coriolis_matrix Robot Tree Inertia Transform RobotFileError"
    ).split():
        assert getattr(diffnea, name).__doc__, name


SHORT = ("01_cartpole", "02_fit")  # the others take ten seconds to half a minute


@pytest.mark.parametrize(
    "path",
    [pytest.param(each, id=each.stem, marks=[] if each.stem in SHORT else [pytest.mark.slow]) for each in EXAMPLES],
)
def test_examples_run_and_draw_a_picture(path, tmp_path):
    assert _python(str(path), cwd=tmp_path).strip()
    drawn = sorted(tmp_path.glob("*.svg"))
    assert drawn and all(each.name.startswith(path.stem[:2]) for each in drawn)
    for each in drawn:
        assert "nan" not in each.read_text() and xml.parse(each).find(".//{*}path[@class]") is not None


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_what_it_does_and_how_long_it_takes(path):
    assert re.search(r", about \d+ s\.", path.read_text().split('"""')[1].split("\n\n")[0])


def test_types_are_checked_at_run_time_in_every_part_but_the_compiler(pytestconfig):
    folder = Path(__file__).parent.parent / "src/diffnea"
    parts = {path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir()} - {"__init__"}
    given = next(option for option in pytestconfig.getini("addopts") if option.startswith("--jaxtyping-packages="))
    listed = given.partition("=")[2].split(",")[:-1]
    assert {f"diffnea.{part}" for part in parts if not part.startswith("__")} - set(listed) == {"diffnea.kernels"}


PUBLIC = ("actuators", "parameters", "recordings", "simulate", "systems", "identify", "excitation", "report")


@pytest.mark.parametrize("part", PUBLIC)
def test_the_api_page_names_all_that_is_public(part):
    page = (Path(__file__).parent.parent / "docs" / "api.md").read_text()
    named = set(re.findall(r"\w+", page))
    module = importlib.import_module(f"diffnea.{part}")
    offered = {name for name, value in vars(module).items() if name[0] != "_" and not isinstance(value, ModuleType)}
    assert offered and offered <= named | {"NAMES"}, offered - named


def test_the_package_offers_what_it_lists_and_the_api_page_names_it():
    import diffnea

    page = (Path(__file__).parent.parent / "docs" / "api.md").read_text()
    assert set(diffnea.__all__) <= set(re.findall(r"\w+", page)) & set(dir(diffnea))
    for name in diffnea.__all__:
        assert getattr(diffnea, name) is not None
    assert callable(diffnea.rollout)
    assert not hasattr(diffnea, "rollouts")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["fit", "--help"],
        ["fitt"],
        ["fit", "--los", "torque"],
        ["fit", "absent.urdf", "run.csv"],
        ["fit", "cartpole", "absent.csv"],
        ["check", "cartpole"],
        ["check", "cartpol", "run.csv"],
        ["fit", "cartpole", "quanser_cartpole:train", "--actuator", "viscus"],
        ["fit", "cartpole", "quanser_cartpole:train", "--learn", "inerta"],
        ["benchmark", "--models", "nae"],
        ["data", "get", "quanser"],
    ],
)
def test_help_and_typing_errors_need_no_jax(arguments):
    program = (
        f"import sys; from diffnea.cli import main; main({arguments!r});"
        "print([name for name in ('jax', 'scipy', 'mujoco') if name in sys.modules])"
    )
    assert _python("-c", program).splitlines()[-1] == "[]"


def test_the_package_is_a_command_too():
    assert _python("-m", "diffnea", "--version") == _python(
        "-c", "import diffnea as dn; print('diffnea', dn.__version__)"
    )


# Types are checked at run time in the tests, but not for users: these calls run as theirs do.
WRONG_TYPES = """
import jax
import diffnea as dn
robot = dn.systems.furuta().robot
two = [0.0, 0.0]
samples = dn.Samples(q=[two] * 9, qd=[two] * 9, qdd=[two] * 9, u=[two] * 9)
for call, said in {
    (lambda: dn.forward_dynamics("furuta.urdf", two, two, two)): "give a Robot",
    (lambda: dn.forward_dynamics(robot, None, two, two)): "q is a NoneType",
    (lambda: dn.forward_dynamics(robot, "ab", two, two)): "q is a str",
    (lambda: dn.forward_dynamics(robot, [[0.0, 0.0], [0.0]], two, two)): "rows of one length",
    (lambda: dn.forward_dynamics(robot, [1j, 0.0], two, two)): "q is complex",
    (lambda: dn.jacobian("furuta.urdf", two, "arm")): "give a Robot",
    (lambda: dn.rollout(robot, two, two, None, 0.1, steps=3)): "give a model, as Model(robot)",
    (lambda: dn.rollout(dn.Model(robot), two, two, "u", 0.1)): "rollout: u is a str",
    (lambda: dn.Model("furuta.urdf")): "give a Robot",
    (lambda: dn.Model(robot, 3)): "give a name or an actuator",
    (lambda: dn.actuators.make(3, 2)): "give a name",
    (lambda: dn.save_robot("furuta", "furuta.urdf")): "give a Robot",
    (lambda: dn.fit("furuta.urdf", [])): "give a Robot",
    (lambda: dn.forward_dynamics(dn.Model(robot), two, two, two)): "got a Model for a robot; give a Robot",
    (lambda: dn.rollout(dn.Model(robot), two, two, None, 0.1, steps=3.0)): "steps is 3.0; give a whole number",
    (lambda: dn.rollout(dn.Model(robot), two, two, None, "0.1", steps=3)): "rollout: dt is a str",
    (lambda: dn.Model(robot).step(two, two, two, 0.0)): "step: dt is 0 s",
    (lambda: dn.Model(robot).linearise(two, two, [0.0])): "u has shape (1,); its last axis must be 2",
    (lambda: dn.load_robot("absent.urdf")): "absent.urdf: no such file or directory",
    (lambda: robot.replace(link="arm", mass=-1.0)): "replace: mass is -1; give a finite number that is not negative",
    (lambda: robot.replace(joint="arm", damping=[0.1, 0.2])): "replace: damping is [0.1, 0.2]; give one number",
    (lambda: jax.jit(lambda robot: dn.Model(robot, "viscous").num_joints)(robot)): "which JAX is tracing here",
    (lambda: dn.fit(robot, samples, actuator=3)): "fit: actuator is a int",
    (lambda: dn.fit(robot, samples, loss="torqe")): 'fit: loss is "torqe" (did you mean "torque"?)',
    (lambda: dn.fit(robot, samples, seed="a")): "fit: seed is 'a'; give a whole number from 0 on",
    (lambda: dn.fit(robot, samples, starts=0)): "fit: starts is 0; give a whole number from 1 on",
    (lambda: dn.fit(robot, samples, steps=-1)): "fit: steps is -1; give a whole number from 1 on",
    (lambda: dn.fit(robot, samples, options=3)): "fit: options is a int; give Options",
    (lambda: dn.fit(robot, samples, known={"viscous": "a"})): "fit: known has viscous = 'a'; give one number",
}.items():
    try:
        call()
    except (TypeError, ValueError) as error:
        assert said in str(error) and chr(10) not in str(error), (said, str(error))
    else:
        raise AssertionError(said)
print(dn.forward_dynamics(robot, two, two, two).shape, dn.__version__)
"""


def test_wrong_types_are_refused_in_one_line_and_lists_are_taken():
    from importlib.metadata import version

    assert _python("-c", WRONG_TYPES) == f"(2,) {version('diffnea')}\n"


def test_a_stranger_s_script_with_each_public_name_runs():
    import diffnea

    script = Path(__file__).parent / "stranger.py"
    used = set(re.findall(r"\bdn\.(\w+)", script.read_text()))
    assert used >= set(diffnea.__all__), set(diffnea.__all__) - used
    assert diffnea.__version__ in _python(str(script))
