"""The report: true to the model, whole in one file, and at home in a browser."""

import base64
import dataclasses
import re

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import log_loss

from coverwalk import ContextClassifier
from coverwalk.evaluation import metrics
from coverwalk.evaluation.report import page
from coverwalk.evaluation.report.class_facts import gather_classes
from coverwalk.evaluation.report.explorer import export
from coverwalk.evaluation.report.facts import Subject, gather
from coverwalk.forest.experts.cell_edges import Cells
from coverwalk.forest.experts.y_cells import YCells
from coverwalk.forest.forest import Forest
from coverwalk.forest.members import Part
from coverwalk.forest.settings import Settings
from coverwalk.forest.tree_table import TreeTable

from .browser import Browser, find_chromium


def make_subject():
    """Two modes in one half; one heavy-tailed and one whole-numbered input; names to trip over."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, 400), rng.standard_t(2, 400) * 1e3, rng.integers(0, 5, 400)])
    y = (
        30
        + 2 * X[:, 0]
        + np.where(X[:, 0] > 0, 3 * rng.choice([-1, 1], 400), 0.1 * X[:, 2] ** 2)
        + 0.2 * rng.standard_normal(400)
    )
    parts = (Part(2, 2, 0.5, False), Part(1, 1, 0.5, False), Part(2, 1, 0.5, True))
    settings = Settings(n_trees=5, scale_factor=0.87, parts=parts)
    forest = Forest.plan(X[:300], y[:300], settings, ["a", "</script><b>", "c"])
    forest.accumulate(X[:300], y[:300])
    forest.finalize()
    return Subject.of(forest, "strength & <i>more</i>", X[290:], y[290:])


@pytest.fixture(scope="module")
def subject():
    return make_subject()


@pytest.fixture(scope="module")
def written(subject, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    page.write_report(subject, path, "a <title>")
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("no Chromium here")
    browser = Browser(chromium, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def thinned(forest, n_trees):
    return dataclasses.replace(forest, trees=forest.trees[:n_trees], fitted=forest.fitted[:n_trees], _table=None)


def test_the_subject_has_every_kind_of_component(subject):
    """Or the browser's evaluator would be proved on less than it has to do."""
    records = [tree.records for tree in subject.forest.fitted]
    assert set(np.concatenate([r.kind for r in records]).tolist()) == {0, 1, 2}
    assert {0, 1, 2} == set(np.concatenate([r.degree for r in records]).tolist())


# Facts


def test_facts_are_those_of_the_model(subject):
    facts = gather(subject)
    dist = subject.forest.predict_dist(subject.X)
    assert facts["losses"][0]["loss"] == pytest.approx(-dist.logpdf(subject.y).mean(), rel=1e-12)
    assert facts["seen"] == pytest.approx(10 / 110)
    assert sum(facts["calibration"]["heights"]) == pytest.approx(20)
    worst = int(np.argmin(dist.logpdf(subject.y)))
    assert facts["surprising"][0]["row"] == worst + 1
    assert facts["explore"]["X"][facts["explore"]["rows"].index(worst + 1)] == subject.X[worst].tolist()
    assert sum(facts["model"]["splits"].values()) == pytest.approx(1)
    assert sum(facts["model"]["components"].values()) == pytest.approx(1)
    assert facts["losses"][0]["loss"] < facts["losses"][1]["loss"] < facts["losses"][2]["loss"]
    assert facts["losses"][0]["crps"] == pytest.approx(dist.crps(subject.y).mean())
    rises = {entry["name"]: entry["rise"] for entry in facts["importances"]}
    assert set(rises) == {"a", "</script><b>", "c"}
    assert max(rises, key=rises.get) == "a"
    assert facts["calibration"]["error"] == pytest.approx(metrics.calibration_error(subject.y, dist))


def test_a_large_forest_is_thinned_and_says_so(subject):
    global_kernel = export(subject.forest)
    assert global_kernel.n_trees == 5
    thin = export(subject.forest, budget=20_000)
    assert 1 <= thin.n_trees < 5
    assert export(subject.forest, budget=1).n_trees == 1


def test_the_page_refers_to_nothing_outside(written):
    text = written.read_text()
    assert not re.search(r"\$(title|style|facts|script)\b", text)
    assert not re.search(r'(src|href)="(?!data:)', text)
    assert not re.search(r"@import|url\(|https?://(?!www\.w3\.org/2000/svg)", text)


def test_the_page_stays_small(subject, tmp_path):
    """Whatever the forest: trees are left out of the explorer, rows out of its list."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y = np.sin(3 * X[:, 0]) * X[:, 1] + 0.05 * rng.standard_normal(1500)
    forest = Forest.plan(X, y, Settings(n_trees=40, min_rows=2))
    forest.accumulate(X, y)
    forest.finalize()
    page.write_report(Subject.of(forest, "y", X, y), tmp_path / "large.html", "large")
    assert export(forest, 10**9).n_trees == 40
    assert export(forest).n_trees < 40  # or this test would show nothing
    assert (tmp_path / "large.html").stat().st_size < 2_000_000


@pytest.fixture(scope="module")
def streamed(subject, tmp_path_factory):
    """The page of a model that is no forest: it predicts, and says what it is."""
    plain = subject._replace(forest=None, inputs=["a", "b", "c"], model={"n_rows": 300, "n_trees": 5, "n_contexts": 77})
    path = tmp_path_factory.mktemp("report") / "stream.html"
    page.write_report(plain, path, "a stream")
    assert gather(plain)["losses"] == gather(subject)["losses"]
    return path


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(300) > 0, "up", "down")
    model = ContextClassifier(4, 2, random_state=0).fit(X[:200], y[:200])
    facts = gather_classes(model, X[200:], y[200:], "way", ["a", "<b>"])
    path = tmp_path_factory.mktemp("report") / "classes.html"
    page.write_page(facts, path, "classes", [])
    return path, facts, model.predict_proba(X[200:]), y[200:]


def test_facts_of_a_classifier(classes):
    _, facts, p, y = classes
    assert facts["losses"][0]["loss"] == pytest.approx(log_loss(y, p, labels=["down", "up"]))
    assert facts["losses"][0]["accuracy"] == pytest.approx(np.mean(p.argmax(axis=1) == (y == "up")))
    assert facts["importances"][0]["name"] == "a"
    assert np.sum(facts["confusion"]) == 100
    assert facts["confusion"][0][0] == np.sum((p.argmax(axis=1) == 0) & (y == "down"))
    assert sum(entry["n"] for entry in facts["reliability"]) == 100


# In the browser


def test_a_page_without_a_forest(browser, streamed):
    browser.open(streamed.as_uri())
    assert browser.errors == []
    assert browser.evaluate("document.getElementById('explore')") is None
    assert browser.evaluate("document.getElementById('splits-section')") is None
    assert "explorer is left out" in browser.evaluate("document.getElementById('notes').textContent")
    for chart in ("pit", "coverage", "losses", "importances"):
        assert browser.evaluate(f"document.querySelectorAll('#{chart} svg *').length") > 5


def test_the_page_of_a_classifier(browser, classes):
    browser.open(classes[0].as_uri())
    assert browser.errors == []
    assert browser.evaluate("document.getElementById('pit')") is None
    for chart in ("reliability", "losses", "importances"):
        assert browser.evaluate(f"document.querySelectorAll('#{chart} svg *').length") > 5
    cells = browser.evaluate("[...document.querySelectorAll('#confusion td')].map((n) => Number(n.textContent))")
    assert cells == [count for row in classes[1]["confusion"] for count in row]
    assert browser.evaluate("document.querySelectorAll('#surprising tr').length") == 10
    assert browser.evaluate("document.getElementById('importances').textContent").count("<b>") == 1


def test_the_page_prints_well(browser, written):
    """On paper: one column, nothing wider than the sheet, no controls, no chart torn in two."""
    browser.open(written.as_uri(), width=794, height=1123)
    browser.call("Emulation.setEmulatedMedia", media="print")
    browser.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert browser.evaluate("document.documentElement.scrollWidth") <= 794
    assert browser.evaluate("getComputedStyle(document.querySelector('main')).display") == "block"
    assert browser.evaluate("getComputedStyle(document.querySelector('.sliders')).display") == "none"
    assert browser.evaluate("getComputedStyle(document.querySelector('section')).breakInside") == "avoid"
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    pdf = base64.b64decode(browser.call("Page.printToPDF")["data"])
    assert pdf[:5] == b"%PDF-"
    assert 1 <= pdf.count(b"/Type /Page\n") <= 8
    browser.call("Emulation.setEmulatedMedia", media="")


def test_the_page_loads_without_a_complaint(browser, written):
    browser.open(written.as_uri())
    assert browser.errors == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
    assert (
        browser.evaluate("document.querySelector('h1').textContent")
        == "What is strength & <i>more</i>, given the rest?"
    )
    assert browser.evaluate("document.querySelectorAll('.slider').length") == 3
    assert "9 %" in browser.evaluate("document.getElementById('notes').textContent")
    for chart in ("density", "pit", "coverage", "losses", "splits", "importances"):
        assert browser.evaluate(f"document.querySelectorAll('#{chart} svg *').length") > 5


def test_a_broken_page_is_noticed(browser, tmp_path):
    path = tmp_path / "broken.html"
    path.write_text("<script>nothing.here()</script>")
    browser.open(path.as_uri())
    assert any("nothing is not defined" in error for error in browser.errors)


@pytest.mark.parametrize("budget", [10**9, 20_000], ids=["all trees", "thinned"])
def test_the_page_predicts_what_the_model_predicts(budget, browser, subject, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "export", lambda forest: export(forest, budget))
    page.write_report(subject, tmp_path / "r.html", "r")
    browser.open((tmp_path / "r.html").as_uri())
    forest = thinned(subject.forest, export(subject.forest, budget).n_trees)
    assert ("the explorer uses" in browser.evaluate("document.getElementById('notes').textContent")) == (budget < 10**6)
    rng = np.random.default_rng(1)
    X = np.vstack([subject.X[:20], subject.X[20:40] * rng.uniform(0.5, 3, (20, 3))])
    grid = np.linspace(subject.y.min() - 20, subject.y.max() + 20, 60)
    ours = np.array(
        browser.evaluate(
            f"{X.tolist()}.map((x) => {{ const m = coverwalk.mixture, v = m.components(x);"
            f" return {grid.tolist()}.map((y) => m.density(v, y)).concat([v.length]); }})"
        )
    )
    dist = forest.predict_dist(X)
    np.testing.assert_allclose(ours[:, :60], dist.pdf(grid[None, :]), rtol=1e-6)
    assert ours[:, 60].tolist() == counted(forest, X)


def test_the_page_knows_curves_of_single_inputs_and_inputs_left_out(browser, tmp_path):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, (600, 4)), rng.integers(0, 3, 600)])
    y = np.sign(X[:, 0]) + np.sin(8 * X[:, 1]) + np.cos(7 * X[:, 2]) + (X[:, 4] == 1) + 0.1 * rng.standard_normal(600)
    forest = Forest.plan(X, y, Settings(n_trees=2, parts=(Part(2, 1, 0.5, True),), unused=(3,)))
    forest.accumulate(X, y)
    forest.finalize()
    assert forest.trend.curves.column.tolist() == [0, 1, 2, 4]  # or this would show nothing
    page.write_report(Subject.of(forest, "y", X[:100], y[:100]), tmp_path / "c.html", "c")
    browser.open((tmp_path / "c.html").as_uri())
    rows, grid = np.vstack([X[:20], 3 * X[:20]]), np.linspace(-5, 5, 40)
    ours = browser.evaluate(
        f"{rows.tolist()}.map((x) => {{ const m = coverwalk.mixture, v = m.components(x);"
        f" return {grid.tolist()}.map((y) => m.density(v, y)); }})"
    )
    np.testing.assert_allclose(ours, forest.predict_dist(rows).pdf(grid[None, :]), rtol=1e-6)


def counted(forest, X):
    """Components of each row, those of no weight among them: the page keeps them."""
    table = TreeTable(forest.table.members, forest.global_kernel, forest.settings.kernel, learns=True)
    components, _ = table.components(X, forest.n_rows)
    cells = len(forest.settings.y_cells.cells.left) if forest.settings.y_cells else 0
    return (np.diff(components[0].offsets) + cells).tolist()


@pytest.mark.parametrize("p", [1, 2])
def test_the_page_knows_the_kernel_density_over_all_rows(p, browser, subject, tmp_path):
    X = subject.X[:, :p]
    forest = Forest.plan(X, subject.y, Settings(n_trees=2, kernel=0.6))
    forest.accumulate(X, subject.y)
    forest.finalize()
    page.write_report(Subject.of(forest, "y", X, subject.y), tmp_path / "k.html", "k")
    browser.open((tmp_path / "k.html").as_uri())
    far = np.vstack([X[:20], 5 * X[:20], -50 * X[:5]])
    shown = browser.evaluate(
        f"{far.tolist()}.map((x) => {{ const m = coverwalk.mixture, v = m.components(x);"
        " return [m.density(v, 30), v.length]; })"
    )
    dist = forest.predict_dist(far)
    np.testing.assert_allclose(np.array(shown)[:, 0], dist.pdf(30.0), rtol=1e-6)
    assert np.array(shown)[:, 1].tolist() == counted(forest, far)
    assert browser.errors == []


def test_the_page_knows_steps(browser, subject, tmp_path):
    cells = Cells(
        *(np.array(ends) for ends in ([28.0, 30.0, 33.0], [30.0, 32.0, 34.0], [28.0, 30.5, 33.0], [30.0, 31.5, 34.0]))
    )
    settings = Settings(n_trees=3, y_cells=YCells(0.8, 1.5, cells))
    forest = Forest.plan(subject.X, subject.y, settings, ["a", "b", "c"])
    forest.accumulate(subject.X, subject.y)
    forest.finalize()
    page.write_report(Subject.of(forest, "y", subject.X, subject.y), tmp_path / "s.html", "s")
    browser.open((tmp_path / "s.html").as_uri())
    X = subject.X[:20]
    shown = np.array(
        browser.evaluate(
            f"{X.tolist()}.map((x) => {{ const m = coverwalk.mixture, v = m.components(x);"
            " return [m.density(v, 29), m.density(v, 31), v.length]; })"
        )
    )
    dist = forest.predict_dist(X)
    np.testing.assert_allclose(shown[:, :2], dist.pdf(np.array([[29.0, 31.0]])), rtol=1e-4)
    assert shown[:, 2].tolist() == counted(forest, X)
    assert browser.errors == []


def test_the_page_knows_the_quantiles_and_the_contexts(browser, subject, written):
    browser.open(written.as_uri())
    for i in range(0, 100, 10):
        browser.evaluate(f"coverwalk.explorer.choose({i})")
        dist = subject.forest.predict_dist(np.array([browser.evaluate("coverwalk.explorer.x")]))[0]
        levels = [0.005, 0.05, 0.5, 0.95]
        shown = browser.evaluate(f"coverwalk.mixture.quantiles(coverwalk.explorer.components, {levels})")
        np.testing.assert_allclose(dist.cdf(np.array(shown)), levels, rtol=1e-5)
    components = browser.evaluate(
        "coverwalk.explorer.components.map((v) => [v.weight, v.tree ?? -1, v.nRows ?? 0]).sort((a, b) => b[0] - a[0])"
    )
    ours = [
        [v.weight, v.context.tree if v.context else -1, v.context.n_rows if v.context else 0] for v in dist.contexts()
    ]
    components = [component for component in components if component[0] > 1e-15]
    np.testing.assert_allclose(sorted(components), sorted(ours), rtol=1e-6)


@pytest.mark.parametrize("df", [1.5, 3.0, 12.0, 130.0, 999.0, 2000.0])
def test_the_page_knows_student(df, browser, written):
    browser.open(written.as_uri())
    e = np.linspace(-8, 8, 41)
    log_norm = stats.t.logpdf(0, df)
    shown = browser.evaluate(f"{e.tolist()}.map((e) => studentCdf(e, {df}, {log_norm}))")
    np.testing.assert_allclose(shown, stats.t.cdf(e, df), atol=1e-6)


def test_a_slider_moves_the_density(browser, written):
    browser.open(written.as_uri())
    state = "[document.getElementById('curve').getAttribute('d'), document.getElementById('contexts').textContent]"
    before = browser.evaluate(state)
    browser.evaluate(
        "(() => { const s = document.querySelector('.slider input'); s.value = s.value > 0 ? -0.9 : 0.9;"
        " s.dispatchEvent(new Event('input', { bubbles: true })); })()"
    )
    after = browser.evaluate(state)
    assert before[0] != after[0]
    assert before[1] != after[1]
    assert browser.evaluate("document.getElementById('row').value") == "-1"
    browser.evaluate("document.getElementById('after').click()")
    assert browser.evaluate("document.getElementById('row').value") == "0"
    assert browser.evaluate("document.querySelector('.seen-dot') !== null")
    assert browser.errors == []


def test_a_surprising_row_leads_to_the_explorer(browser, written):
    browser.open(written.as_uri())
    browser.evaluate("document.querySelectorAll('#surprising button')[1].click()")
    wanted = browser.evaluate("coverwalk.facts.surprising[1]")
    assert browser.evaluate("coverwalk.facts.explore.rows[coverwalk.explorer.row]") == wanted["row"]
    assert browser.errors == []


def test_a_phone_has_no_sideways_scrolling(browser, written):
    browser.open(written.as_uri(), width=360, height=740)
    assert browser.evaluate("window.innerWidth") == 360
    assert browser.evaluate("document.documentElement.scrollWidth") <= 360
    assert browser.evaluate(
        "[...document.querySelectorAll('svg')].every((s) => s.getBoundingClientRect().right <= 360)"
    )
    sizes = browser.evaluate(
        "[...document.querySelectorAll('p, li, td, th, text')].map((n) => parseFloat(getComputedStyle(n).fontSize))"
    )
    assert min(sizes) >= 12


def test_dark_mode_is_dark_and_readable(browser, written):
    def colours():
        return browser.evaluate(
            "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,"
            " getComputedStyle(document.querySelector('.curve')).stroke]"
        )

    def lightness(colour):
        return float(np.mean([int(part) for part in re.findall(r"\d+", colour)[:3]]))

    browser.open(written.as_uri(), scheme="light")
    paper, ink, curve = map(lightness, colours())
    assert paper > 200 > 100 > ink
    assert curve < 100
    browser.open(written.as_uri(), scheme="dark")
    paper, ink, curve = map(lightness, colours())
    assert paper < 60 < 180 < ink
    assert curve > 180
