"""What all pages share: templates, and the style and scripts that each carries with it."""

from importlib import resources
from importlib.util import find_spec
from typing import Any

TEMPLATES = resources.files("diffnea.report") / "templates"


def styles(*scripts: str) -> dict[str, str]:
    """What every page carries with it; `scripts` are templates of its own."""
    code = [(TEMPLATES / name).read_text() for name in ("script.js", *scripts)]
    style, chart_style = ((TEMPLATES / name).read_text() for name in ("style.css", "chart.css"))
    return {"style": style, "chart_style": chart_style, "script": "\n".join(code)}


def can_render() -> bool:
    """Whether pages can be made: they need the extra `report`."""
    return find_spec("jinja2") is not None


def environment() -> Any:
    """Templates, with everything escaped that is not marked safe."""
    try:
        import jinja2
    except ImportError:
        raise ValueError("report: needs jinja2; install it with: pip install 'diffnea[report]'") from None
    loader = jinja2.PackageLoader("diffnea.report")
    return jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
