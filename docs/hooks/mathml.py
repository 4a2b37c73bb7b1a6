"""For the pages: equations as MathML, made while the pages are built, so that a browser needs no script and no font."""

import html
import re

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
DISPLAY = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)


def on_page_content(text: str, **_: object) -> str:
    """mkdocs calls this with the HTML of a page."""
    text = DISPLAY.sub(lambda found: f'<div class="equation">{convert(_plain(found), display="block")}</div>', text)
    return INLINE.sub(lambda found: convert(_plain(found)), text)


def _plain(found: re.Match[str]) -> str:
    return html.unescape(found[1]).strip()
