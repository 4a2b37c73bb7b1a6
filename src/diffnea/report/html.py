"""What all pages share: templates, and the style and scripts that each carries with it."""

import base64
import hashlib
from importlib import resources
from typing import Any

TEMPLATES = resources.files("diffnea.report") / "templates"


def styles(*scripts: str) -> dict[str, str]:
    """What every page carries with it; `scripts` are templates of its own."""
    code = [(TEMPLATES / name).read_text() for name in ("script.js", *scripts)]
    style, chart_style = ((TEMPLATES / name).read_text() for name in ("style.css", "chart.css"))
    script = "\n".join(code)
    return {"style": style, "chart_style": chart_style, "script": script, "policy": _policy(script)}


def _policy(script: str) -> str:
    """What a browser lets a page do: run this one script, and ask nobody for anything."""
    digest = base64.b64encode(hashlib.sha256(f"\n{script}\n".encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def standalone(svg: str) -> str:
    """A chart as a file of its own, with its colours."""
    head, _, rest = svg.partition(">")
    return f"{head}><style>{(TEMPLATES / 'chart.css').read_text()}</style>{rest}\n"


def environment() -> Any:
    """Templates, with everything escaped that is not marked safe."""
    import jinja2  # here, because only pages need it

    loader = jinja2.PackageLoader("diffnea.report")
    return jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
