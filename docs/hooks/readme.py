"""For the start page: what the README says of the project, taken from it, so that there is one text of it."""

import re
from pathlib import Path
from typing import Any

README = Path(__file__).parents[2] / "README.md"
FIRST, LAST = "**A robot file", "This is version"
MARK = "<!-- the README's first part -->"


def first_part() -> str:
    """From its first sentence to its tables, with links as they are from docs/."""
    text = README.read_text()
    part = text[text.index(FIRST) : text.index(LAST)]
    return re.sub(r"\]\(docs/", "](", part)


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """mkdocs calls this with each page's text."""
    return markdown.replace(MARK, first_part()) if page.file.src_uri == "index.md" else markdown
