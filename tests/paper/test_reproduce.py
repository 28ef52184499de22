"""The experiments run, write what they show, and judge claims by their own numbers."""

import csv

import numpy as np
import pytest
from scipy import integrate

from coverwalk.cli import main
from coverwalk.datasets import make_gaussmix
from coverwalk.paper import figure2, run
from coverwalk.paper.double_kernel import DoubleKernel


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A run of the command small enough for a test, without the robot's rows."""
    out = tmp_path_factory.mktemp("reproduction")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COVERWALK_DATA", raising=False)
        patch.setattr(run, "_QUICK", (12_000, 320, (200, 500, 1_000, 3_000)))
        assert main(["reproduce", "--quick", "--out", str(out)]) == 0
    return out


def test_writes_every_table_figure_and_the_page(pages):
    names = {path.name for path in pages.iterdir()}
    pictures = {f"{name}.{kind}" for name in ("figure1", "figure2", "lemmas") for kind in ("csv", "png")}
    assert names == {"index.html", "table1.csv"} | pictures
    page = (pages / "index.html").read_text()
    assert "Robot is left out" in page
    assert page.count("Held.") + page.count("Did not hold here.") == page.count("The paper: ")


def test_the_csv_holds_the_losses_that_the_page_shows(pages):
    with (pages / "figure2.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["set"] for row in rows} == {"Gaussian mixture", "Uniform mixture", "Geyser"}
    page = (pages / "index.html").read_text()
    for row in rows:
        assert f"{float(row['coarsening walk']):.3f}" in page


def test_claims_follow_the_numbers():
    def curve(name, ours, kernel):
        return figure2.Curve(name, list(zip([100, 1000], ours, ours, kernel)), None)

    def verdicts(geyser):
        curves = [
            curve("Gaussian mixture", [1.4, 1.2], [1.5, 1.3]),
            curve("Uniform mixture", [1.4, 1.2], [1.5, 1.25]),
            geyser,
        ]
        return [claim.held for claim in figure2._claims(curves)]

    assert verdicts(curve("Geyser", [3.5, 3.2], [3.4, 3.15])) == [True, True, True, True]
    assert verdicts(curve("Geyser", [3.5, 3.2], [3.4, 3.0])) == [True, True, False, True]
    assert verdicts(curve("Geyser", [3.5, 3.2], [3.4, 3.3])) == [True, True, False, True]


def test_the_double_kernel_is_a_density_and_chooses_sensible_bandwidths():
    X, y = make_gaussmix(400)
    model = DoubleKernel().fit(X, y)
    assert 0.05 < model.hx < 1.0
    assert 0.05 < model.hy < 1.0
    for x in (-3.0, 0.5, 40.0):
        mass, _ = integrate.quad(
            lambda v, x=x: float(np.exp(model.logpdf(np.array([[x]]), np.array([v])))[0]), -12, 12, limit=400
        )
        assert mass == pytest.approx(1.0, abs=1e-6)
    X_holdout, y_holdout = make_gaussmix(4000, 1000)
    assert -model.logpdf(X_holdout, y_holdout).mean() < 1.35
