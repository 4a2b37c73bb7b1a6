"""What all pages share: templates, and the style and scripts that each carries with it."""

from importlib import resources
from typing import Any

TEMPLATES = resources.files("diffnea.report") / "templates"


def styles(*scripts: str) -> dict[str, str]:
    """What every page carries with it; `scripts` are templates of its own."""
    code = [(TEMPLATES / name).read_text() for name in ("script.js", *scripts)]
    style, chart_style = ((TEMPLATES / name).read_text() for name in ("style.css", "chart.css"))
    return {"style": style, "chart_style": chart_style, "script": "\n".join(code)}


def environment() -> Any:
    """Templates, with everything escaped that is not marked safe."""
    import jinja2  # here, because only pages need it

    loader = jinja2.PackageLoader("diffnea.report")
    return jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
