"""The page of a benchmark: what its findings say, its tables and figures, and how it behaves in a browser."""

import csv
import re
import xml.etree.ElementTree as xml
from dataclasses import replace

import numpy as np
import pytest
from benchmark_records import made_up, write_benchmark
from browser import assert_legible, chromium, opened

from diffnea import report
from diffnea.benchmark import Cell, cells, records
from diffnea.report.claims import beyond, claims
from diffnea.report.figures import charts
from diffnea.report.figures.heat_map import best, heat_map


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write_benchmark(folder, failing=("nokin-nn-torque",), datasets=("uniform", "simulated", "stand-in"), seeds=2)
    report.benchmark(folder)
    return folder


@pytest.fixture(scope="module")
def synthetic():
    rng = np.random.default_rng(1)
    return [made_up(cell, rng) for cell in cells(datasets=("uniform", "simulated"))]


def _changed(records, where, change):
    return [change(record) if where(record) else record for record in records]


def _with(record, **numbers):
    return replace(record, numbers={**record.numbers, **numbers})


def test_findings_hold_where_the_numbers_are_for_them(synthetic):
    assert [claim.verdict for claim in claims(synthetic)] == ["holds"] * 5
    for claim in claims(synthetic):
        assert {row.system for row in claim.evidence} == {"cartpole", "furuta"}


def test_findings_without_cells_say_so():
    assert [claim.verdict for claim in claims([])] == ["not enough cells"] * 5
    alone = made_up(Cell("cartpole", "simulated", "ff-nn"), np.random.default_rng(0))
    assert [claim.mark for claim in claims([alone])] == ["unknown", "unknown", "unknown", "yes", "unknown"]


def _poor_rollouts(record):
    worse = {
        way: part | {"horizons": {h: 3 * (e or 1) for h, e in part["horizons"].items()}}
        for way, part in record.numbers["rollout"].items()
    }
    return _with(record, rollout=worse)


def _lost(record):
    lost = {
        way: part | {"horizons": dict.fromkeys(part["horizons"])} for way, part in record.numbers["rollout"].items()
    }
    return _with(record, rollout=lost)


def _diverging(record):
    energy = record.numbers["energy"]
    part = {way: numbers | {"diverged": 0.1} for way, numbers in energy["doubled"].items()}
    return _with(record, energy={**energy, "doubled": part})


def _quiet(record):
    still = {"own_gain": 0.0, "true_gain": 0.0, "diverged": 0.0}
    return _with(record, energy={span: {"rk4": still, "auto": still} for span in ("inside", "doubled")})


def _rising(record):
    up = {"own_gain": 0.4, "true_gain": 0.4, "diverged": 0.0}
    return _with(record, energy={span: {"rk4": up, "auto": up} for span in ("inside", "doubled")})


def _slim(record):
    return _with(record, observables=[seen | {"value": seen["truth"]} for seen in record.numbers["observables"]])


@pytest.mark.parametrize(
    ("number", "where", "change"),
    [
        (0, lambda cell: cell.model.startswith("nokin"), _poor_rollouts),
        (1, lambda cell: cell.model == "diffnea-viscous", _diverging),
        (2, lambda cell: cell.entry.actuator == "ideal", _slim),
        (3, lambda cell: True, _quiet),
        (3, lambda cell: True, _rising),
        (4, lambda cell: not cell.model.endswith("-prior"), _poor_rollouts),
    ],
)
def test_a_finding_falls_when_the_numbers_are_against_it(synthetic, number, where, change):
    everywhere = _changed(synthetic, lambda r: where(r.cell) and r.cell.dataset == "simulated", change)
    claim = claims(everywhere)[number]
    assert claim.verdict != "holds"
    assert all(row.holds != (row.dataset == "simulated") for row in claim.evidence)
    cartpole = _changed(synthetic, lambda r: where(r.cell) and r.cell.system == "cartpole", change)
    assert claims(cartpole)[number].mark == "partly"


def test_the_best_bounded_model_is_held_against_data_sheet_and_network():
    rng = np.random.default_rng(2)
    real = [made_up(cell, rng) for cell in cells(datasets=("real",))]
    assert beyond(real).verdict == "holds" and len(beyond(real).evidence) == 4
    exact = [_with(record, sheet={"0.5": 0.0, "1.0": 0.0}) for record in real]
    assert beyond(exact).verdict == "does not hold"
    assert beyond([record for record in real if record.cell.model != "ff-nn"]).verdict == "not enough cells"


def test_a_fit_that_ran_away_is_no_evidence_of_inflation(synthetic):
    def heavy(record):
        return _with(record, observables=[seen | {"value": 1e20} for seen in record.numbers["observables"]])

    some = _changed(synthetic, lambda r: r.cell.model.endswith("ideal-prior"), heavy)
    claim = claims(some)[2]
    assert claim.verdict == "holds" and all("2.4 ×" in row.numbers for row in claim.evidence)
    assert all("2 fits ran away" in row.numbers for row in claim.evidence)
    assert claims(_changed(synthetic, lambda r: r.cell.entry.actuator == "ideal", heavy))[2].evidence == ()


def test_failed_cells_are_listed_and_left_out(runs):
    page = (runs / "report.html").read_text()
    assert "12 of 312 cells failed" in page and "it broke" in page
    with open(runs / "results.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 312
    failed = [row for row in rows if row["error"]]
    assert {row["model"] for row in failed} == {"nokin-nn-torque"} and failed[0]["auto_nrmse_1.0"] == ""
    sound = next(row for row in rows if not row["error"] and row["dataset"] == "simulated")
    assert float(sound["auto_nrmse_1.0"]) == pytest.approx(2 * float(sound["auto_nrmse_0.5"]))


def test_a_stand_in_is_called_that(runs):
    page = (runs / "report.html").read_text()
    assert "No real recordings were found" in page and not re.search(r">\s*real\s*<", page)


def test_the_page_needs_nothing_else_and_stays_small(runs):
    page = (runs / "report.html").read_text()
    assert len(page) < 15e6
    outside = re.findall(r'(?:src|href|action)="([^"#]+)"|url\(([^)]+)\)|@import', page)
    assert outside == [("data:,", "")]


def test_figures_are_well_formed_files(runs):
    files = sorted((runs / "figures").glob("*.svg"))
    assert len(files) == 2 * 3 * (3 + 3 + 1 + 1 + 3) + 2
    for path in files:
        drawing = xml.parse(path).getroot()
        assert drawing.find(".//{*}path") is not None and "NaN" not in path.read_text().replace("nan", "NaN")


def test_curves_break_where_there_is_no_number_and_stay_in_bounds():
    x = np.array([0.0, 1, 2, 3, 4])
    y = np.array([0.0, np.nan, 1, 1e300, np.inf])
    svg = charts.lines([charts.Panel("y", [charts.Line(x, y, "bounded", "<a & b>")], (0.0, 1.0))], "x", "t")
    d = next(path.get("d") for path in xml.fromstring(svg).iter() if path.get("data-model") == "<a & b>")
    assert d is not None and d.count("M") == 2 and max(map(float, re.findall(r"-?[\d.]+", d))) < 1e4


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "not the folder of a benchmark"),
        ("{", "damaged"),
        ("[]", "an object is expected"),
        ("{}", "no records yet"),
    ],
)
def test_a_folder_that_is_no_benchmark_is_refused(tmp_path, content, line):
    if content is not None:
        (tmp_path / "benchmark.json").write_text(content)
    with pytest.raises(ValueError, match=line):
        report.benchmark(tmp_path)


def test_an_edited_record_is_not_reported(tmp_path):
    write_benchmark(tmp_path, models=("nea",), systems=("furuta",), datasets=("uniform",))
    path = records.folder(tmp_path, Cell("furuta", "uniform", "nea")) / "record.json"
    path.write_text(path.read_text().replace("accepted", "splendid"))
    with pytest.raises(records.RecordError, match="changed after it was written"):
        report.benchmark(tmp_path)


# In a browser ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    yield from chromium()


@pytest.fixture
def page(browser, runs):
    page = opened(browser, runs / "report.html")
    yield page
    page.close()


def _column(page, k):
    return page.eval_on_selector_all(
        f"#results-table tbody tr:not(.hidden) td:nth-child({k})", "cells => cells.map(cell => cell.dataset.key)"
    )


def test_it_opens_without_an_error_and_asks_for_nothing(page, runs):
    assert page.said == []
    assert [url for url in page.asked if not url.startswith("data:")] == [(runs / "report.html").as_uri()]


def test_every_chart_is_drawn(page):
    page.select_option("#integrator", "rk4")
    sizes = page.eval_on_selector_all(
        "figure svg.chart",
        "all => all.filter(one => one.checkVisibility()).map(one => [one.getBoundingClientRect().height,"
        " one.querySelectorAll('.curve, .dot, .bar').length])",
    )
    assert len(sizes) == 2 * 3 * (3 + 1 + 1 + 3) + 2
    assert all(height > 50 and marks > 2 for height, marks in sizes)
    assert page.said == []


def test_tables_sort_both_ways_by_number_and_by_word(page):
    error = page.locator("#results-table th button", has_text=re.compile("^1 s$"))
    error.click()
    rising = [float(value) for value in _column(page, 7)]
    assert rising == sorted(rising) and rising[0] < rising[-1]
    error.click()
    falling = [float(value) for value in _column(page, 7)]
    assert falling == sorted(falling, reverse=True)
    page.locator("#results-table th button", has_text="model").click()
    names = _column(page, 3)
    assert names == sorted(names) and page.said == []


def test_tables_filter_by_words_and_choices(page):
    page.fill("[data-filter=all]", "viscous prior")
    assert set(_column(page, 3)) == {"diffnea-viscous-prior", "nokin-viscous-prior"}
    page.select_option("[data-filter='0']", "furuta")
    assert set(_column(page, 1)) == {"furuta"}
    assert page.inner_text("#results-count") == "6 of 156 rows"
    page.click("#results-reset")
    assert page.inner_text("#results-count") == "156 of 156 rows"


def test_pointing_at_a_model_lights_it_everywhere(page):
    page.locator("#results-table tbody tr").first.hover()
    lit = page.eval_on_selector_all(".lit", "all => all.map(one => one.dataset.model)")
    assert set(lit) == {"diffnea-ideal"} and len(lit) > 20


def test_classes_can_be_hidden(page):
    page.uncheck("[data-class=unbounded]")
    assert page.locator("[data-group=unbounded]:visible").count() == 0
    assert page.locator("[data-group=bounded]:visible").count() > 0


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 390), ("dark", 1280)])
def test_it_fits_a_phone_and_follows_the_theme(browser, runs, scheme, width):
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 800})
    page.goto((runs / "report.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    assert_legible(page)
    page.close()


def test_it_opens_with_the_best_model_and_all_of_them_from_best_to_worst(page, synthetic):
    rows = page.eval_on_selector_all(
        ".heat tbody tr",
        "all => all.map(row => [row.dataset.model, ...[...row.cells].slice(1).map(c => c.textContent)])",
    )
    assert len(rows) == 26 and {len(row) for row in rows} == {1 + 6 + 1}
    assert rows[-1] == ["nokin-nn-torque", *["failed"] * 6, ""]
    means = [float(row[-1]) for row in rows[:-1]]
    assert means == sorted(means) and f"Best over all: {rows[0][0]}" in page.inner_text("header")
    box = page.locator(".heat").bounding_box()
    assert box["y"] < 500 and page.locator(".note").first.bounding_box()["y"] > box["y"] + box["height"]


def test_a_model_that_diverges_or_was_not_run_is_not_the_best(synthetic):
    name = heat_map(synthetic).rows[0].name
    lost = _changed(synthetic, lambda record: record.cell.variant == name, _lost)
    found = heat_map(lost)
    first = best(lost)
    assert first is not None and first.name != name and found.rows[-1].mean > found.rows[0].mean
    (row,) = [row for row in found.rows if row.name == name]
    assert {cell.text for cell in row.cells} == {"∞"} and {cell.level for cell in row.cells} == {9}
    assert best([]) is None and heat_map([]).rows == ()
