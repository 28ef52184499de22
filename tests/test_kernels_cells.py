"""The kernels of the optional Polya tree and of the normals' walk against sums over all context maps."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.special import betaln

from coverwalk._kernels.forest.dyadic_cells import BITS
from coverwalk._kernels.forest.dyadic_walk import cell_density
from coverwalk._kernels.forest.normal_criterion import NormalPrior
from coverwalk.forest.densities.cell_tree import boxes_of, grown_cells, levels_of_choice, weighed_cells
from coverwalk.forest.densities.normal_tree import grow_normals, growth_for, weigh
from coverwalk.local import Polynomial
from coverwalk.preparation.scaling import Scaling

STOP, A = 0.4, 0.7


class Cover:
    """The cells of a slow optional Polya tree, grown from ``rows``; and all its context maps, one by one."""

    def __init__(self, rows, most, levels):
        self.rows, self.most, self.levels = rows, most, levels

    def axes(self, cell, rows):
        """Where a cell that holds these rows may be halved; below the lattice, where its halves differ most."""
        h = [round(-math.log2(width)) for _, width in cell]
        free = [a for a in range(len(h)) if h[a] < self.most[a]]
        if sum(h) < self.levels or not free:
            return free

        def apart(a):
            return abs(sum(1 if p[a] < cell[a][0] + cell[a][1] / 2 else -1 for p in rows))

        return [min(free, key=lambda a: (-apart(a), h[a], a))]

    def maps(self, cell, points):
        """Prior probability of every context map below a cell, and the density of ``points`` in (0, 1)^q under it."""

        def inside(rows):
            return [p for p in rows if all(low <= x < low + width for x, (low, width) in zip(p, cell))]

        here = inside(points)
        uniform = math.prod(width for _, width in cell) ** -len(here)
        axes = self.axes(cell, inside(self.rows))
        if not axes or len(inside(self.rows)) < 2:
            yield 1.0, uniform
            return
        yield STOP, uniform
        for axis in axes:
            low, width = cell[axis]
            halves = [(*cell[:axis], (start, width / 2), *cell[axis + 1 :]) for start in (low, low + width / 2)]
            below = sum(p[axis] < low + width / 2 for p in here)
            shares = math.exp(betaln(below + A, len(here) - below + A) - betaln(A, A))
            for (p, one), (r, two) in product(*(list(self.maps(half, points)) for half in halves)):
                yield (1 - STOP) / len(axes) * p * r, shares * one * two

    def evidence(self, points):
        root = tuple((0.0, 1.0) for _ in self.most)
        return math.fsum(prior * likelihood for prior, likelihood in self.maps(root, points))


@pytest.mark.parametrize(
    ("most", "levels"),
    [([4], 0), ([2, 2], 4), ([2, 1], 3), ([2, 2], 1), ([2, 2], 2), ([1, 1, 1], 3), ([1, 1, 1], 1), ([3, 1], 0)],
)
def test_cells_equal_the_sum_over_all_context_maps(most, levels):
    q = len(most)
    rng = np.random.default_rng(q + levels)
    points = [tuple(p) for p in rng.random((5, q)) ** 2]
    cover = Cover(points, most, levels)
    log_Z, steps = weighed_cells(grown_cells(code(points), np.array(most), levels), STOP, A, 0.0)
    Z = cover.evidence(points)
    assert log_Z == pytest.approx(math.log(Z), abs=1e-9)
    assert mass(steps, q).sum() == pytest.approx(1.0, abs=1e-12)
    ask = [*(tuple(p) for p in rng.random((4, q))), points[0]]
    density = np.empty(len(ask))
    cell_density(code(ask), steps, density)
    assert density == pytest.approx(np.array([cover.evidence([*points, y]) / Z for y in ask]), abs=1e-9)


def code(points):
    return (np.array(points) * 2.0**BITS).astype(np.int64)


def mass(steps, q):
    """The probability of each cell on which the density is uniform."""
    _, width = boxes_of(steps, q)
    return np.concatenate([steps[2], steps[3].ravel()]) * width.prod(axis=1)


def test_leaving_out_faint_halvings_loses_no_mass_and_little_else():
    rng = np.random.default_rng(0)
    codes = code(rng.random((500, 2)) ** 3)
    cells = grown_cells(codes, np.array([30, 30]), levels_of_choice(500, 2))
    whole, pruned = weighed_cells(cells, STOP, A, 0.0)[1], weighed_cells(cells, STOP, A, 1e-6)[1]
    said = np.empty((2, len(codes)))
    for steps, out in zip((whole, pruned), said):
        assert mass(steps, 2).sum() == pytest.approx(1.0, abs=1e-9)
        cell_density(codes, steps, out)
    assert len(pruned[0]) < len(whole[0]) / 2
    assert np.log(said[1]).mean() == pytest.approx(np.log(said[0]).mean(), abs=3e-3)


def test_the_normals_walk_equals_the_sum_over_its_maps():
    left = np.array([1, 3, -1, -1, -1])
    size = np.array([10, 7, 3, 4, 3])
    log_phi = np.array([-3.0, -2.0, -1.5, -0.5, -0.7])
    left, parent = left.astype(np.int64), np.array([-1, 0, 0, 1, 1])
    prior = NormalPrior(1, 1, 1, STOP, A, 1.0, 1.0, 1.0, 0.0)

    def maps(k):
        if left[k] < 0:
            yield 1.0, {k: 1.0}
            return
        yield STOP * math.exp(log_phi[k]), {k: 1.0}
        one, two = left[k], left[k] + 1
        shares = math.exp(betaln(size[one] + A, size[two] + A) - betaln(A, A))
        for (p, a), (r, b) in product(maps(one), maps(two)):
            yield (
                (1 - STOP) * shares * p * r,
                {
                    **{c: m * (size[one] + A) / (size[k] + 2 * A) for c, m in a.items()},
                    **{c: m * (size[two] + A) / (size[k] + 2 * A) for c, m in b.items()},
                },
            )

    def weighed():
        for p, masses in maps(0):
            leaves = math.prod(math.exp(log_phi[c]) for c in masses if left[c] < 0)
            yield p * leaves, masses

    Z = math.fsum(p for p, _ in weighed())
    log_Z, stops = weigh(left, parent, size, log_phi, prior)
    assert log_Z == pytest.approx(math.log(Z), abs=1e-9)
    for k in range(5):
        assert stops[k] == pytest.approx(math.fsum(p * masses.get(k, 0.0) for p, masses in weighed()) / Z, abs=1e-9)
    assert weigh(left, parent, size, log_phi, prior._replace(faint=0.2))[1].sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_one_context_is_the_normal_wishart(q, monkeypatch):
    evidences = []

    def remembered(*tree):
        weighed = weigh(*tree)
        evidences.append(weighed[0])
        return weighed

    monkeypatch.setattr("coverwalk.forest.densities.normal_tree.weigh", remembered)
    rng = np.random.default_rng(q)
    Y = rng.standard_normal((2 * (3 + q) - 1, q))  # too few rows for a cut
    growth = growth_for(q, 0.5, 0.5)
    normals = grow_normals(Y, Scaling(np.zeros(q), np.ones(q), squash=False), np.full(q, 1e-200), growth, 0)
    slow = Polynomial(0, q, ridge=growth.ridge, nu=growth.nu0, scatter=growth.nu0).start()
    for y in Y:
        slow.update(None, y)
    assert evidences == pytest.approx([slow.log_evidence()], abs=1e-9)
    ask = rng.standard_normal((5, q))
    assert normals.logpdf(ask) == pytest.approx(np.array([slow.logpdf(None, y) for y in ask]), abs=1e-9)
