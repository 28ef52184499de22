"""The report's explorer on rounded, zero-inflated and bounded y: the same probabilities as the model's."""

import numpy as np
import pytest

from coverwalk import ConditionalDensity
from coverwalk.evaluation.report import page
from coverwalk.evaluation.report.facts import Subject

from .browser import Browser, find_chromium

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(300, 2))
Z = RNG.standard_normal(300)
TARGETS = {
    "rounded": (np.round(10 + 3 * X[:, 0] + Z), None),
    "tenths": (np.round(X[:, 0] + 0.3 * Z, 1), None),
    "counts": (RNG.poisson(np.exp(0.5 + X[:, 0])).astype(float), (0, None)),
    "rain": (np.maximum(3 * X[:, 0] + Z, 0.0), (0, None)),
    "marks": (np.clip(60 + 30 * X[:, 0] + 20 * Z, 0, 100), (0, 100)),
    "atom within": (np.where(RNG.random(300) < 0.3, 5.0, 5 + X[:, 0] + Z), None),
    "positive": (np.exp(X[:, 0] + 0.5 * Z), (0, None)),
    "at most": (3 - np.exp(X[:, 0] + 0.5 * Z), (None, 3)),
    "unit": (1 / (1 + np.exp(-2 * X[:, 0] - Z)), (0, 1)),
    "plain": (X[:, 0] + Z, None),
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("no Chromium here")
    browser = Browser(chromium, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module", params=TARGETS)
def reported(request, tmp_path_factory, browser):
    """The page of a model of this y, open in the browser, and the model's distribution of five rows."""
    y, bounds = TARGETS[request.param]
    forest = ConditionalDensity(6, bounds=bounds).fit(X, y).forests_[0]
    path = tmp_path_factory.mktemp("report") / "report.html"
    page.write_report(Subject.of(forest, "y", X[:60], y[:60]), path, "y")
    browser.open(path.as_uri())
    return forest, y


def shown(browser, expression, ys):
    return np.array(
        browser.evaluate(
            f"{X[:5].tolist()}.map((x) => {{ const m = coverwalk.mixture, v = m.components(x);"
            f" return {np.asarray(ys).tolist()}.map((y) => {expression}); }})"
        )
    )


def test_densities_and_masses(browser, reported):
    forest, y = reported
    dist = forest.predict_dist(X[:5])
    ys = np.unique(np.concatenate([y[:40], np.linspace(y.min() - 1, y.max() + 1, 23)]))
    if forest.settings.rounding and forest.settings.rounding.step:
        ys = np.unique(forest.settings.rounding._rounded(ys))
    np.testing.assert_allclose(
        shown(browser, "m.density(v, y)", ys), dist.pdf(np.tile(ys, (5, 1))), rtol=1e-5, atol=2e-6
    )


def test_quantiles(browser, reported):
    forest, _ = reported
    levels = np.array([0.013, 0.17, 0.501, 0.86, 0.993])
    ours = shown(browser, "m.quantiles(v, [y])[0]", levels)
    np.testing.assert_allclose(ours, forest.predict_dist(X[:5]).ppf(levels), rtol=1e-5, atol=1e-5)


def test_the_picture_has_all_the_probability(browser, reported):
    """Area under the curve, plus single values as lines of their own: one, up to what lies outside of the picture."""
    forest, _y = reported
    browser.evaluate("coverwalk.explorer.choose(0)")
    assert browser.errors == []
    area, masses, low, high = browser.evaluate(
        "(() => { const e = coverwalk.explorer, [low, high] = e.span(), { ys, sums } = e.curve(low, high);"
        " const top = sums[sums.length - 1]; let area = 0;"
        " for (let i = 1; i < ys.length; i++) area += ((top[i] + top[i - 1]) / 2) * (ys[i] - ys[i - 1]);"
        " return [area, e.atoms().filter((a) => a.value >= low && a.value <= high).map((a) => a.mass), low, high]; })()"
    )
    dist = forest.predict_dist(np.array([browser.evaluate("coverwalk.explorer.x")]))[0]
    half = (forest.settings.rounding.step if forest.settings.rounding else 0.0) / 2
    inside = dist.cdf(high + half * 0.999) - dist.cdf(low - half)
    assert area + sum(masses) == pytest.approx(inside, abs=0.03)
    drawn = browser.evaluate("document.querySelectorAll('#density circle.atom').length")
    assert drawn == len(masses)
    told = browser.evaluate("document.getElementById('summary').textContent")
    assert ("P(y =" in told) == bool(masses)
