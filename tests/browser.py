"""A Chromium for the tests of pages: the one that is installed, without a word to anybody."""

from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")
QUIET = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


def chromium():
    """For a fixture; tests are skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"no Chromium at {CHROMIUM}")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=QUIET)
        yield browser
        browser.close()


def opened(browser, path: Path, **settings):
    """A page that remembers what it said on its console and what it asked for."""
    page = browser.new_page(**({"viewport": {"width": 1280, "height": 900}} | settings))
    page.said, page.asked = [], []
    page.on("console", lambda message: page.said.append(message.text))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(path.as_uri())
    return page


# Sizes and contrasts as they are on the screen: text of charts in pixels, and the contrast of every text with what is
# behind it (WCAG 2.2), each with the worst of its kind.
_LEGIBLE = """() => {
  const scratch = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = text => { scratch.clearRect(0, 0, 1, 1); scratch.fillStyle = text; scratch.fillRect(0, 0, 1, 1);
    return [...scratch.getImageData(0, 0, 1, 1).data].map((v, k) => k < 3 ? v : v / 255); };
  const over = (top, below) => top.slice(0, 3).map((v, k) => v * top[3] + below[k] * (1 - top[3]));
  const light = c => c.slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = one => { if (!one) return [255, 255, 255];
    const own = rgba(getComputedStyle(one).backgroundColor);
    return own[3] === 1 ? own.slice(0, 3) : over(own, behind(one.parentElement)); };
  const texts = [...document.querySelectorAll("body *")].filter(one => one.checkVisibility({opacityProperty: true})
    && !one.closest("script, style, title") && one.id !== "pointed"
    && [...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim()));
  let size = [99, ""], contrast = [99, ""];
  for (const one of texts) {
    const style = getComputedStyle(one), drawn = one.closest("svg.chart"), paper = behind(one);
    if (one.tagName === "title") continue;
    const ink = over(rgba(drawn ? style.fill : style.color), paper);
    const [a, b] = [light(ink), light(paper)].sort((x, y) => y - x), found = (a + 0.05) / (b + 0.05);
    const told = one.textContent.trim().slice(0, 40);
    if (found < contrast[0]) contrast = [found, told];
    const scale = drawn ? drawn.getBoundingClientRect().width / drawn.viewBox.baseVal.width : 1;
    if (drawn && scale * parseFloat(style.fontSize) < size[0]) size = [scale * parseFloat(style.fontSize), told];
  }
  return {size, contrast};
}"""


def assert_legible(page) -> None:
    """Every text has a contrast of 4.5 at least, and those of charts are 12 px at least."""
    found = page.evaluate(_LEGIBLE)
    assert found["contrast"][0] >= 4.5 and found["size"][0] >= 12.0, found
