"""The page of a fit: what it says, what it draws, and how it behaves in a browser."""

import json
import re
import xml.etree.ElementTree as xml
from dataclasses import replace
from html import escape

import numpy as np
import pytest
from browser import assert_legible, chromium, opened
from fit_folders import as_samples, cartpole_recordings, network
from robots import random_robot, random_tree

import diffnea as dn
from diffnea import report
from diffnea.cli import main
from diffnea.identify.notes import note
from diffnea.identify.payload import Estimate, Payload
from diffnea.identify.solve.solution import Status
from diffnea.report import residuals
from diffnea.report.evidence import evidence, friction_curve
from diffnea.report.figures import fit_figures
from diffnea.report.figures.playback import scene
from diffnea.report.pages.fit_page import tiles

KINDS = ("viscous", "samples", "network", "failed")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A fit whose actuator lacks dry friction, one of samples, a network, and one that failed."""
    place = tmp_path_factory.mktemp("fits")
    robot, recordings = cartpole_recordings()
    fits = {
        "viscous": dn.fit(robot, recordings, actuator="viscous", method="lm", loss="acceleration"),
        "samples": dn.fit(robot, as_samples(recordings), actuator="viscous", method="lm", steps=8, loss="acceleration"),
        "network": dn.fit(network(recordings), recordings, method="adam", steps=50),
        "failed": dn.fit(robot, [each[:8] for each in recordings], actuator="viscous", loss="acceleration"),
    }
    for name, fit in fits.items():
        fit.save(place / name)
        report.fit(place / name)
    return {name: (place / name, fit) for name, fit in fits.items()}


def text(folder):
    return (folder / "report.html").read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_a_page_with_its_verdict(folders, kind):
    folder, fit = folders[kind]
    page = text(folder)
    assert f">{fit.verdict.status}</span>" in page and len(page) < 3e6
    assert all(reason.split('"')[0] in page.replace("&#39;", "'") for reason in fit.verdict.reasons)
    assert ('id="playback-canvas"' in page) == (kind in ("viscous", "failed"))
    assert ("<h2>Friction</h2>" in page) == (kind != "network")
    assert ("<h3>Roll-outs</h3>" in page) == (kind in ("viscous", "network", "failed"))
    outside = re.findall(r'(?:src|href|action)="([^"#]+)"|url\(([^)]+)\)|@import', page)
    assert outside == [("data:,", "")]


def test_intervals_are_drawn_from_the_narrowest_and_angles_are_in_radians(folders):
    fit, page = folders["viscous"][1], text(folders["viscous"][0])
    drawn = fit_figures.forest(fit)
    readable = [each for each in fit.identifiable if not each.base and abs(each.value) > 1e-12]
    assert drawn is not None and drawn.svg.count('class="dot fit"') == min(len(readable), 24)
    narrowest = min(readable, key=lambda each: (each.upper - each.lower) / abs(each.value))
    assert drawn.svg.index(escape(narrowest.formula)) == min(drawn.svg.index(escape(each.formula)) for each in readable)
    head = page.split("</header>")[0]
    assert drawn.svg in page and "°" not in head and " rad" in head


# Labels beside axes that run into one another, or out of the page at its left.
_OVERLAPS = """() => [...document.querySelectorAll("svg.chart")].flatMap(chart => {
  const labels = [...chart.querySelectorAll("text.axis")].filter(one => one.checkVisibility())
    .map(one => [one.textContent, one.getBoundingClientRect()]);
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  return labels.flatMap(([told, a], k) => a.left < 0 || labels.slice(k + 1).some(([_, b]) => meet(a, b)) ? [told] : []);
})"""


def _with_names(fit, names):
    """The same fit of joints with other names, as many as they are."""

    def renamed(model):
        robot = model.robot
        return replace(model, robot=replace(robot, tree=replace(robot.tree, joint_names=names)))

    kept = replace(fit.held_out, start=renamed(fit.held_out.start))
    return replace(fit, model=renamed(fit.model), consistent=renamed(fit.consistent), held_out=kept)


@pytest.mark.parametrize("width", [1280, 800])
def test_labels_of_charts_do_not_meet_where_joints_have_long_names(folders, browser, tmp_path, width):
    folder, fit = folders["viscous"]
    fit = _with_names(fit, ("left_shoulder_pitch_joint", "left_shoulder_roll_joint"))
    page = opened(browser, report.save_page(fit, tmp_path), viewport={"width": width, "height": 900})
    assert page.evaluate(_OVERLAPS) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    names = page.locator("#prediction svg.chart text.panel").all_text_contents()
    assert set(names) == {"left_shoulder_pitch_joint", "left_shoulder_roll_joint"}
    page.close()


def test_the_first_screen_has_the_joints_that_are_predicted_worst(folders):
    fit = folders["viscous"][1]
    found = evidence(fit)
    shown = fit_figures.opening(found, fit_figures.Joints.of(fit))
    assert shown is not None and shown.caption == found.examples[0].rank and shown.svg.count('class="panel"') == 2
    example = found.examples[0]
    wide = {key: np.repeat(getattr(example, key), 3, axis=1) for key in ("measured", "fit", "start", "guess")}
    wide["fit"][:, 4] += 5.0
    found = replace(found, examples=(replace(example, **wide),))
    shown = fit_figures.opening(found, fit_figures.Joints(tuple("abcdef"), (False,) * 6))
    assert shown is not None and shown.svg.count('class="panel"') == 3 and ">e</text>" in shown.svg
    assert shown.caption == f"{example.rank}, the 3 joints of 6 predicted worst"


@pytest.mark.parametrize("kind", KINDS)
def test_charts_are_well_formed_and_hold_no_nan(folders, kind):
    charts = re.findall(r"<svg xmlns.*?</svg>(?=</figure>)", text(folders[kind][0]), re.DOTALL)
    assert len(charts) > 4
    for chart in charts:
        drawing = xml.fromstring(chart)
        assert drawing.find(".//{*}path") is not None and "nan" not in chart and "inf" not in chart


def test_the_page_is_that_of_the_folder(folders, tmp_path):
    """Saved, read and rendered again it is the same; without the data, it still has its tables."""
    folder, fit = folders["viscous"]
    again = dn.load_fit(folder)
    assert again.held_out is not None and len(again.held_out.tracks) == len(fit.held_out.tracks)
    np.testing.assert_array_equal(again.held_out.tracks[0].qdd, fit.held_out.tracks[0].qdd)
    state = again.held_out.tracks[0].q[:3], again.held_out.tracks[0].qd[:3], again.held_out.tracks[0].u[:3]
    np.testing.assert_array_equal(again.held_out.start(*state), fit.held_out.start(*state))
    assert report.page(again, "viscous") == report.page(fit, "viscous") == text(folder)
    saved = again.save(tmp_path / "copy")
    assert {path.name for path in (tmp_path / "copy").iterdir()} == set(saved.files) and saved.lacking == ()
    assert again.versions == dn.load_fit(tmp_path / "copy").versions
    (tmp_path / "copy" / "held_out.npz").unlink()
    page = report.fit(tmp_path / "copy").read_text()
    assert "holds no data to draw" in page and "cart viscous friction" in page and "<svg" in page


def test_folders_of_other_versions_are_read(folders, tmp_path):
    """Older ones have sentences for notes and no options, newer ones codes that are not known here."""
    _, fit = folders["viscous"]
    path = tmp_path / "fit.json"
    fit.save(tmp_path)
    content = json.loads(path.read_text())
    assert content["notes"][0].keys() == {"code", "subject", "values", "text"}
    older = {key: [each["text"] for each in content[key]] for key in ("reasons", "notes", "unknown")}
    path.write_text(json.dumps({**content, **older, "options": None}))
    found = dn.load_fit(tmp_path)
    assert found.verdict.reasons == fit.verdict.reasons and set(found.verdict.codes) == {"said"}
    assert list(map(str, found.notes)) == list(map(str, fit.notes)) and found.options == fit.options
    assert older["reasons"][0] in report.page(found).replace("&#34;", '"')
    content["notes"][0]["code"] = "of-tomorrow"
    path.write_text(json.dumps(content))
    assert dn.load_fit(tmp_path).notes[0].text == fit.notes[0].text


def test_what_a_fit_was_made_with_is_kept(folders, tmp_path):
    """Options that differ from the usual ones, how the search ended, and a payload with its intervals."""
    _, fit = folders["viscous"]
    options = replace(fit.options, judge=replace(fit.options.judge, least_blocks=7))
    payload = Payload(Estimate(1.2, 1.1, 1.3), *(Estimate(*np.ones((3, n))) for n in (3, 6)), frame="flange")
    replace(fit, options=options, outcome=Status.STOPPED_EARLY, payload=payload).save(tmp_path)
    found = dn.load_fit(tmp_path)
    assert found.options == options != fit.options and found.status == "stopped early"
    assert hash(found.options) == hash(options)  # tuples are tuples again
    assert found.payload.to_dict() == payload.to_dict() and [each.code for each in found.notes] == [
        each.code for each in fit.notes
    ]


def test_an_error_that_is_not_smaller_is_not_called_so(folders):
    _, fit = folders["viscous"]
    better, worse = fit.metrics, replace(fit.metrics, fit=fit.metrics.start, start=fit.metrics.fit)
    equal = replace(fit.metrics, start=fit.metrics.fit)
    words = [tiles(replace(fit, metrics=each), None)[0] for each in (better, worse, equal)]
    assert words[0][1].startswith("smaller error") and words[1] == (
        words[0][0],
        words[0][1].replace("smaller", "larger"),
    )
    assert "than the start" not in words[2][1]


def test_what_is_shown_was_not_fitted(folders):
    _, fit = folders["viscous"]
    robot, recordings = cartpole_recordings()
    assert [track.name for track in fit.held_out.tracks] == ["run 2"]
    np.testing.assert_allclose(fit.held_out.tracks[0].measured, recordings[2].q)
    np.testing.assert_allclose(fit.held_out.start.robot.inertia.mass, robot.inertia.mass, rtol=1e-9)


def test_missing_friction_is_seen_and_named(folders):
    """Dry friction that the model lacks: the data ask for it, what is left goes with velocity, and words say so."""
    folder, fit = folders["viscous"]
    seen = evidence(fit)
    cart = seen.longest
    asked = (cart.torques.rest - cart.torques.taken)[:, 0]
    fast = np.abs(cart.track.qd[:, 0]) > 0.1
    speed = cart.track.qd[fast, 0]
    assert np.mean(np.sign(asked[fast]) == np.sign(speed)) > 0.9
    assert residuals.binned(cart.track.qd[:, 0], cart.residual[:, 0]).explained > 0.15
    assert re.search(
        r"cart: [\d.]+% of its variance is not explained; \d+% of that goes with its velocity", text(folder)
    )


def test_friction_curves_are_the_actuators_own():
    robot, _ = cartpole_recordings(1, 0.1)
    dry = np.array([0.4, 1e-3])
    model = dn.Model(robot, dn.actuators.Stribeck.of(2 * dry, dry, np.array([0.5, 0.1]), 1.0))
    speed, torque = friction_curve(model, np.zeros(2), 0, 3.0)
    expected = np.sign(speed) * (0.4 + 0.4 * np.exp(-(speed**2))) + 0.5 * speed
    np.testing.assert_allclose(torque, expected, rtol=1e-5)


def test_torques_add_up(folders):
    """What the model leaves is inverse dynamics minus the actuator's torque, the delay included."""
    _, fit = folders["viscous"]
    late = dn.actuators.combine(dn.actuators.Delay.of(1.25, 2), fit.model.actuator)
    seen = evidence(replace(fit, model=dn.Model(fit.robot, late)))
    track, stretch = seen.longest.track, seen.longest
    u = np.vstack([np.tile(track.u[0], (2, 1)), track.u])
    arrived = 0.75 * u[1:-1] + 0.25 * u[:-2]
    friction = np.asarray(fit.model.actuator.viscous) * track.qd
    expected = np.asarray(dn.inverse_dynamics(fit.robot, track.q, track.qd, track.qdd)) - arrived + friction
    np.testing.assert_allclose(stretch.residual, expected, atol=1e-8)
    wrong = np.asarray(dn.mass_matrix(fit.robot, track.q)) @ (track.qdd - stretch.fit)[..., None]
    np.testing.assert_allclose(stretch.residual, wrong[..., 0], atol=1e-8)


def test_a_spectrum_finds_the_power_and_bins_the_pattern():
    dt, rng = 1e-2, np.random.default_rng(0)
    time = dt * np.arange(4096)
    wave = 3 * np.sin(2 * np.pi * 10 * time)
    frequency, density = residuals.spectrum([wave, wave[:2000]], dt)
    assert frequency[np.argmax(density)] == pytest.approx(10, abs=0.2)
    assert np.sum(density**2) * (frequency[1] - frequency[0]) == pytest.approx(4.5, rel=0.02)  # Parseval
    assert residuals.spectrum([wave[:20]], dt) is None
    x, noise = rng.normal(size=5000), rng.normal(size=5000)
    assert residuals.binned(x, noise).explained < 0.02
    assert residuals.binned(x, np.sign(x) + noise).explained == pytest.approx(0.5, abs=0.05)
    assert residuals.binned(np.zeros(50), noise[:50]).explained == 0


def test_bodies_have_the_inertia_of_their_links():
    """A solid ellipsoid of the drawn size has the link's moments of inertia."""
    robot = dn.systems.furuta().robot
    for i, link in enumerate(scene(robot, np.zeros((3, 2)))["links"]):
        if link["body"] is None:
            continue
        axes, mass = np.array(link["body"]), float(robot.inertia.mass[i])
        spread = mass / 5 * axes @ axes.T
        found = np.trace(spread) * np.eye(3) - spread
        centre = np.array(link["centre"])
        about = found + mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
        size = np.linalg.norm(about)
        np.testing.assert_allclose(about, robot.inertia.rotational_matrix[i], atol=0.05 * size)


# In a browser ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    yield from chromium()


@pytest.mark.parametrize("kind", KINDS)
def test_it_opens_without_an_error_and_asks_for_nothing(browser, folders, kind):
    path = folders[kind][0] / "report.html"
    page = opened(browser, path)
    sizes = page.eval_on_selector_all(
        "figure svg.chart",
        "all => all.map(one => [one.getBoundingClientRect().height,"
        " one.querySelectorAll('.curve, .cloud, .whisker').length])",
    )
    assert len(sizes) > 4 and all(height > 50 and marks > 0 for height, marks in sizes)
    assert page.said == [] and [url for url in page.asked if not url.startswith("data:")] == [path.as_uri()]
    page.close()


def test_the_playback_moves_pauses_and_turns(browser, folders):
    page = opened(browser, folders["viscous"][0] / "report.html")
    canvas = page.locator("#playback-canvas")
    canvas.scroll_into_view_if_needed()
    for _ in range(200):  # the page's policy lets no test evaluate text in it
        if int(canvas.get_attribute("data-frame") or 0) > 5:
            break
        page.wait_for_timeout(50)
    else:
        raise AssertionError("the playback does not move")
    page.click("#playback-play")
    frame = canvas.get_attribute("data-frame")
    page.wait_for_timeout(200)
    assert canvas.get_attribute("data-frame") == frame and page.inner_text("#playback-play") == "play"
    page.locator("#playback-scrub").fill("30")
    assert canvas.get_attribute("data-frame") == "30" and page.inner_text("#playback-time") == "0.60 s"

    def picture():
        return page.evaluate("document.getElementById('playback-canvas').toDataURL()")

    before = picture()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 240)
    page.mouse.up()
    turned = picture()
    page.click("#playback-closer")
    closer = picture()
    page.select_option("#playback-run", "2")
    assert len({before, turned, closer, picture()}) == 4 and page.said == []
    page.close()


def test_the_playback_has_the_kinematics_of_the_robot(browser, folders):
    """The page's own forward kinematics, of the fit and of a random tree, against the package's."""
    page = opened(browser, folders["viscous"][0] / "report.html")
    robot, q = folders["viscous"][1].robot, np.array([0.3, -2.0])
    found = page.evaluate("q => window.playback.poses(q)", q.tolist())
    poses = np.asarray(dn.forward_kinematics(robot, q))
    np.testing.assert_allclose([pose["p"] for pose in found], poses[:, :3, 3], atol=1e-5)
    np.testing.assert_allclose([pose["R"] for pose in found], poses[:, :3, :3], atol=1e-5)
    page.close()
    tree = random_robot(random_tree(3, 5), 5)
    other = (folders["viscous"][0] / "report.html").read_text()
    data = json.loads(re.search(r'id="playback-data">(.*?)</script>', other, re.DOTALL)[1])
    zeros = np.zeros((2, tree.num_joints))
    made = {**data, "scene": scene(tree, zeros), "measured": zeros.tolist()}
    made["runs"] = [{**run, "q": zeros.tolist()} for run in data["runs"]]
    path = folders["viscous"][0] / "tree.html"
    path.write_text(
        re.sub(r'(id="playback-data">).*?(</script>)', lambda m: m[1] + json.dumps(made) + m[2], other, flags=re.DOTALL)
    )
    page = opened(browser, path)
    q = np.random.default_rng(0).normal(size=tree.num_joints)
    found = page.evaluate("q => window.playback.poses(q)", q.tolist())
    np.testing.assert_allclose([p["p"] for p in found], np.asarray(dn.forward_kinematics(tree, q))[:, :3, 3], atol=1e-4)
    page.close()


def test_base_parameters_and_long_lists_are_folded(browser, folders, tmp_path):
    folder, fit = folders["viscous"]
    sums = [each for each in fit.identifiable if each.base]
    assert 0 < len(sums) < len(fit.identifiable)
    page = opened(browser, folder / "report.html")
    shown = page.locator("#known tbody tr").filter(visible=True)
    assert shown.count() == len(fit.identifiable) - len(sums)
    page.get_by_text(f"{len(sums)} base parameter").click()
    assert shown.count() == len(fit.identifiable) and page.said == []
    page.close()
    many = replace(fit.known, unknown=tuple(note("said", said=f"mass {k}") for k in range(13)))
    (tmp_path / "many.html").write_text(report.page(replace(fit, knowledge=lambda: many)))
    page = opened(browser, tmp_path / "many.html")
    told = page.locator("#known li").filter(visible=True)
    assert told.count() == 10
    page.get_by_text("and 3 more").click()
    assert told.count() == 13
    page.close()


def test_tables_sort_and_filter(browser, folders):
    page = opened(browser, folders["viscous"][0] / "report.html")
    page.select_option("[data-filter='5']", "yes")
    shown = page.locator("#results-table tbody tr:not(.hidden)")
    rows = [row for row in folders["viscous"][1].table if row.identifiable]
    assert shown.count() == len(rows) > 0 and page.said == []
    page.click("#results-reset")
    page.fill("[data-filter=all]", "viscous friction")
    assert shown.count() == 2
    page.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 390), ("dark", 1280)])
def test_it_fits_a_phone_and_follows_the_theme(browser, folders, scheme, width):
    page = opened(
        browser, folders["viscous"][0] / "report.html", color_scheme=scheme, viewport={"width": width, "height": 800}
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    assert_legible(page)
    assert page.locator("header svg.chart").bounding_box()["y"] < 800  # a picture on the first screen
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    page.close()


# Two fits beside each other ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compared(folders, tmp_path_factory):
    """The viscous fit beside one with dry friction, on the same recordings."""
    robot, recordings = cartpole_recordings()
    place = tmp_path_factory.mktemp("compared")
    dn.fit(robot, recordings, actuator="stribeck", method="lm", loss="acceleration").save(place / "stribeck")
    first = folders["viscous"][0]
    page = report.comparison_page(first, place / "stribeck", place / "both.html")
    return report.compare(first, place / "stribeck"), page, (first, place / "stribeck")


def test_the_better_model_is_named_and_numbers_stand_side_by_side(compared):
    found, _, (first, second) = compared
    assert found.same_data and found.conclusion.startswith(f"{second} predicts better: its error is 0.")
    assert found.settings["actuator"] == ("viscous", "stribeck") and "loss" not in found.settings
    rows = {row.name: row for row in found.numbers}
    only = rows["cart kinetic friction"]
    assert only.values[0] is None and only.values[1] == pytest.approx(1.2, rel=0.1) and only.differs is None
    felt = rows["inertia felt by cart"]  # of sums that both determine there is an interval in either
    assert felt.start is None and None not in (*felt.values, *felt.stds) and felt.differs is not None
    assert rows["cart viscous friction"].differs  # the viscous fit takes dry friction for viscous
    for k, fit in enumerate(map(dn.load_fit, (first, second))):
        assert found.errors[1][k] == fit.metrics.fit.error_joints[1]
    json.dumps(found.to_dict())


def test_fits_on_other_data_are_no_contest(compared, folders, tmp_path):
    _, _, (first, _) = compared
    robot, recordings = cartpole_recordings()
    dn.fit(robot, recordings[:2], actuator="viscous", method="lm", loss="acceleration").save(tmp_path / "fewer")
    found = report.compare(first, tmp_path / "fewer")
    assert not found.same_data and "different data" in found.conclusion
    with pytest.raises(ValueError, match="compare fits of the same joints"):
        report.compare(first, folders["network"][0])


def test_the_comparison_opens_in_a_browser(browser, compared):
    page = opened(browser, compared[1])
    assert page.locator("figure svg.chart").count() == 4 and page.said == []
    page.select_option("[data-filter='7']", "yes")
    shown = page.locator("#results-table tbody tr:not(.hidden)").count()
    assert shown == sum(bool(row.differs) for row in compared[0].numbers) > 0
    assert [url for url in page.asked if not url.startswith("data:")] == [compared[1].as_uri()]
    page.close()


def test_many_fits_are_ranked(browser, compared, folders, tmp_path, capsys):
    """The one with dry friction is best; a third one is the viscous fit again, under another name."""
    viscous, dry = map(str, compared[2])
    again = tmp_path / "again"
    folders["viscous"][1].save(again)
    out = tmp_path / "ranking.html"
    names = [viscous, dry, str(again)]
    assert main(["report", *names, "--out", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["same_data"] and found["fits"][0]["name"] == dry and {e["name"] for e in found["fits"]} == set(names)
    assert found["fits"][1]["mean"] == pytest.approx(found["fits"][2]["mean"])
    assert main(["report", *names, "--out", str(out)]) == 0
    assert capsys.readouterr().out.startswith(f"{dry} predicts best")
    like = report.rank([viscous, again]).conclusion
    assert like == f"{viscous} and {again} predict equally well on the same data not fitted, and best"
    page = opened(browser, out, viewport={"width": 390, "height": 800})
    assert page.locator("#results-table tbody tr").count() == 3 and page.said == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert_legible(page)
    page.close()


def test_the_command_writes_pages_of_one_fit_and_of_two(compared, folders, tmp_path, capsys):
    first, second = map(str, compared[2])
    out = str(tmp_path / "both.html")
    assert main(["report", first, second, "--out", out]) == 0
    printed = capsys.readouterr().out
    assert "predicts better" in printed and "verdict" in printed and "1 s ahead: pole" in printed and out in printed
    assert main(["report", first, second, "--out", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["same_data"] is True
    assert main(["report", first]) == 0
    assert capsys.readouterr().out.strip() == str(folders["viscous"][0] / "report.html")
    assert main(["report"]) == 1
    assert "0 folders; give one, or several fits to compare" in capsys.readouterr().err
    assert main(["report", first, str(tmp_path)]) == 1
    assert "give a folder written by fit.save" in capsys.readouterr().err
