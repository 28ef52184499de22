"""Pictures are drawn without a warning, on given axes too, and refuse what they cannot show."""

import sys

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

from coverwalk.distributions.mixture import PredictiveDistribution  # noqa: E402
from coverwalk.distributions.shapes import Shapes  # noqa: E402
from coverwalk.evaluation import plotting  # noqa: E402


@pytest.fixture
def dist():
    n = 30
    x = np.linspace(0, 1, n)
    weight, loc = np.tile([0.3, 0.7], n), np.stack([x, -x], axis=1).ravel()
    return PredictiveDistribution(
        np.arange(0, 2 * n + 1, 2), weight, loc, np.full(2 * n, 0.2), np.zeros(2 * n), Shapes.student(3.0)
    )


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_every_picture_draws(dist):
    y, x = dist.rvs(random_state=0), np.linspace(0, 1, 30)
    for ax in (
        plotting.plot_density(dist, y),
        plotting.plot_density(dist[3]),
        plotting.plot_conditional(dist, x, data=(x, y)),
        plotting.plot_pit(y, dist),
        plotting.plot_reliability(y, dist),
        plotting.plot_contexts(dist[0]),
    ):
        ax.figure.canvas.draw()
        assert ax.has_data()
    _, given = plt.subplots()
    assert plotting.plot_pit(y, dist, ax=given) is given


def test_conditional_sorts_x_and_draws_the_quantiles(dist):
    x = np.linspace(0, 1, 30)
    ax = plotting.plot_conditional(dist[::-1], x[::-1], quantiles=[0.5, 0.1])
    np.testing.assert_allclose(ax.lines[0].get_ydata(), dist.ppf(0.1))
    np.testing.assert_allclose(ax.lines[1].get_xdata(), x)


def test_the_heat_map_shows_each_density_where_it_belongs(dist):
    x = np.linspace(0, 1, 30) ** 2  # uneven
    ax = plotting.plot_conditional(dist, x)
    (image,) = ax.images
    left, right, bottom, top = image.get_extent()
    shade = np.asarray(image.get_array())
    at_x = left + (np.arange(shade.shape[1]) + 0.5) * (right - left) / shade.shape[1]
    at_y = bottom + (np.arange(shade.shape[0]) + 0.5) * (top - bottom) / shade.shape[0]
    assert (at_x[0], at_x[-1]) == pytest.approx((0.0, 1.0), abs=1e-12)
    for column in (0, 60, 199):
        row = int(np.argmin(np.abs(x - at_x[column])))
        density = dist[row].pdf(at_y)
        near = 0.12 if 0 < column < 199 else 1e-9  # between two rows it is interpolated
        np.testing.assert_allclose(shade[:, column], density / density.max(), atol=near)


def test_refusals(dist):
    with pytest.raises(ValueError, match="grid"):
        plotting.plot_conditional(dist, np.zeros(3))
    with pytest.raises(ValueError, match="one row"):
        plotting.plot_contexts(dist)


def test_without_matplotlib(dist, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install matplotlib"):
        plotting.plot_density(dist)
