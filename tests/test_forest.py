"""The forest: its local models against dense linear algebra and refits, its walk against CoverModel's mathematics, its
distributions.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from coverwalk import ConditionalDensity
from coverwalk._kernels.forest.contexts import Grid, empty_fit, fit_contexts
from coverwalk._kernels.forest.evidence import stop_weights
from coverwalk._kernels.forest.kernel_density import density_evidence, kernel_tables
from coverwalk._kernels.forest.polynomial import features, n_features
from coverwalk._kernels.forest.regression import kernel_matrix
from coverwalk._kernels.linalg.cholesky import back_solve, factorise, forward_solve, log_determinant
from coverwalk.forest.forest import Forest
from coverwalk.forest.settings import Settings
from coverwalk.forest.tree import grow_tree
from coverwalk.forest.tuning import choose
from coverwalk.preparation.row_codes import canonical_order
from coverwalk.preparation.scaling import Scaling


def rows(n=200, p=3, seed=0, noise=0.2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, p))
    return X, np.sin(3 * X[:, 0]) + X[:, -1] * X[:, 0] + noise * rng.standard_normal(n)


def fitted(X, y, **settings):
    forest = Forest.plan(X, y, Settings(**settings))
    forest.accumulate(X, y)
    forest.finalize()
    return forest


def basis(X, degree):
    F = np.empty((len(X), n_features(degree, X.shape[1])))
    for x, f in zip(X, F):
        features(x, degree, f)
    return F


@pytest.mark.parametrize("degree", [1, 2])
def test_inner_products_agree_with_the_features(degree):
    X, _ = rows(6)
    F, K = basis(X, degree), np.zeros((6, 6))
    kernel_matrix(X, degree, K)
    np.testing.assert_allclose(K, np.triu(F @ F.T), rtol=1e-12)


def test_factors_against_lapack():
    rng = np.random.default_rng(0)
    B = rng.normal(size=(9, 7))
    A, b = B.T @ B, rng.normal(size=7)
    U, z = A.copy(), b.copy()
    factorise(U, 7)
    forward_solve(U, 7, z, 0)
    back_solve(U, 7, z)
    np.testing.assert_allclose(z, np.linalg.solve(A, b), rtol=1e-9)
    assert log_determinant(U, 7) == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-12)


def root_fit(X, y, ridge, degree, many=1e9):
    tree = grow_tree(X, y, 0, min_rows=len(y))  # the root alone
    perm, layout = tree.arrange(X)
    grid = Grid(np.array([ridge]), degree, 2.0, many, 1e-8, X.shape[1])
    fit = empty_fit(layout, grid, X.shape[1])
    fit_contexts(X[perm], y[perm], layout, grid, kernel_tables(), fit)
    return fit, y[perm], X[perm]


@pytest.mark.parametrize("n", [5, 8, 40])  # in rows for degree 2, in rows or features for degree 1, in features
def test_left_one_out_evidence_is_that_of_refits(n):
    X, y = rows(n)
    fit, y, X = root_fit(X, y, 0.3, 2)
    prior = 2.0 * (np.mean(y**2) + 1e-16)
    for degree in range(3):
        F = basis(X, degree)
        total = 0.0
        for i in range(n):
            G, r = np.delete(F, i, 0), np.delete(y, i)
            Lam = G.T @ G + 0.3 * np.eye(F.shape[1])
            c = np.linalg.solve(Lam, G.T @ r)
            nu = 2.0 + n - 1
            psi = prior + r @ r - c @ Lam @ c
            scale = np.sqrt(psi / nu * (1 + F[i] @ np.linalg.solve(Lam, F[i])))
            total += stats.t.logpdf(y[i], nu, F[i] @ c, scale)
        assert fit.log_score[0, degree] == pytest.approx(total, abs=1e-8)


def test_density_evidence_is_left_one_out():
    e = np.random.default_rng(0).normal(size=30)
    tables = kernel_tables()
    counts = np.zeros(128, np.int32)
    log_evidence, scale, _ = density_evidence(e, np.empty(0), 1e-9, tables, counts)
    kernels, base = tables
    assert scale == pytest.approx(np.sqrt(np.mean(e**2)))
    bins = np.floor(e / (scale / 16) + 64.5).astype(int)
    assert np.all(np.bincount(bins, minlength=128) == counts)
    scores = []
    for row in kernels.T:
        K = row[127 + bins[:, None] - bins]
        scores.append(np.sum(np.log((K.sum(1) - row[127] + base[bins]) / (30 * scale))))
    # the search may leave out bandwidths that are far too fine: they hold no mass
    assert log_evidence == pytest.approx(logsumexp(scores) - np.log(len(scores)), abs=0.2)


def test_batch_evidence_of_the_walk():
    left = np.array([1, 3, -1, -1, -1])
    log_phi = np.log([0.1, 0.4, 0.3, 0.9, 0.7])
    z1 = 0.25 * 0.4 + 0.75 * 0.9 * 0.7
    z0 = 0.25 * 0.1 + 0.75 * z1 * 0.3
    log_stop, log_go = np.empty((2, 5))
    log_z = stop_weights(left, log_phi, 0.25, log_stop, log_go)
    assert log_z == pytest.approx(np.log(z0), abs=1e-12)
    np.testing.assert_allclose(np.exp(log_stop), [0.25 * 0.1 / z0, 0.25 * 0.4 / z1, 1, 1, 1], rtol=1e-12)
    np.testing.assert_allclose(np.exp(log_go), [0.75 * z1 * 0.3 / z0, 0.75 * 0.63 / z1, 0, 0, 0], rtol=1e-12)


def test_densities_integrate_to_one_and_weights_sum():
    X, y = rows()
    dist = fitted(X, y, n_trees=3).predict_dist(X[:3])
    grid = np.concatenate([-np.geomspace(1e4, 20, 2000), np.linspace(-20, 20, 200_001), np.geomspace(20, 1e4, 2000)])
    mass = np.trapezoid(dist.pdf(grid[None, :]), grid, axis=1)
    np.testing.assert_allclose(mass, 1, atol=1e-5)
    np.testing.assert_allclose(np.add.reduceat(dist.components.weight, dist.components.offsets[:-1]), 1, rtol=1e-12)


def test_order_of_rows_and_threads_change_nothing():
    X, y = rows()
    order = np.random.default_rng(3).permutation(len(y))
    a = fitted(X, y, n_trees=4).predict_dist(X[:20])
    b = fitted(X[order], y[order], n_trees=4, n_threads=3).predict_dist(X[:20])
    assert np.array_equal(a.logpdf(y[:20]), b.logpdf(y[:20]))


def test_rows_come_in_any_chunks():
    X, y = rows()
    plan = Forest.plan(X[:120], y[:120], Settings(n_trees=3))
    whole, one = replace(plan), replace(plan)
    whole.accumulate(X, y)
    one.accumulate(X[150:], y[150:])
    one.accumulate(X[:150], y[:150])
    for forest in (whole, one):
        forest.finalize()
    assert np.array_equal(whole.predict_dist(X[:9]).logpdf(y[:9]), one.predict_dist(X[:9]).logpdf(y[:9]))


def test_contexts_without_rows_say_what_their_parent_says():
    X, y = rows()
    forest = Forest.plan(X, y, Settings(n_trees=3))
    left = X[:, 0] < 0
    forest.accumulate(X[left], y[left])
    forest.finalize()
    assert np.all(np.isfinite(forest.predict_dist(X).logpdf(y)))


def test_polynomials_do_not_run_away():
    rng = np.random.default_rng(0)
    X = rng.standard_t(1.5, size=(400, 2))
    y = np.sign(X[:, 0]) * np.log1p(np.abs(X[:, 0])) + 0.1 * rng.standard_normal(400)
    far = np.array([[1e6, 0.0], [-1e12, 1e5], [1e300, -1e300]])
    assert np.all(np.abs(fitted(X, y).predict_dist(far).mean()) < 2 * np.abs(y).max())


def test_inputs_are_clamped_to_the_rows_of_a_context():
    X, y = rows(300, p=2, noise=0.05)
    y = y + 5 * X[:, 0]  # a slope that would lead far away
    forest = fitted(X, y, n_trees=3, stop=0.9)
    edge = np.array([[X[:, 0].max() + forest.inputs.scale[0] / 256, 0.1]])  # to where ranges are rounded
    beyond = np.array([[1.5, 0.1], [1e3, 0.1], [1e300, 0.1]])
    at = np.linspace(-8, 8, 33)
    expected = forest.predict_dist(edge).logpdf(at[None, :])[0]
    np.testing.assert_allclose(
        forest.predict_dist(beyond).logpdf(at[None, :]), np.tile(expected, (3, 1)), rtol=0, atol=1e-12
    )
    inside = forest.predict_dist(np.array([[0.5, 0.1]])).logpdf(at[None, :])[0]
    assert np.abs(inside - expected).max() > 1


def test_boxes_are_in_the_units_of_x():
    X, y = rows(300)
    X[:, 0] = 1e4 * X[:, 0] + 7
    forest = fitted(X, y, n_trees=4)
    for component in forest.predict_dist(X[:1])[0].contexts(top=40):
        if component.context is not None:
            for name, (low, high) in component.context.box.items():
                x = X[0, int(name[1:])]
                assert low - 1e-6 * abs(x) <= x <= high + 1e-6 * abs(x)


def test_scaling_is_undone_and_keeps_order():
    X = np.array([[-1e5], [-3.0], [0.0], [0.1], [2.0], [1e9]])
    scaling = Scaling.of(X)
    Z = scaling.forward(X)
    assert np.all(np.diff(Z[:, 0]) > 0)
    np.testing.assert_allclose(scaling.backward(Z[:, 0], 0), X[:, 0], rtol=1e-9, atol=1e-6)


def test_canonical_order_is_that_of_the_rows():
    X, y = rows(50)
    order = np.random.default_rng(0).permutation(50)
    assert np.array_equal(X[canonical_order(X, y)], X[order][canonical_order(X[order], y[order])])


def test_noise_prefers_to_stop_and_structure_to_go_on():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(400, 2))
    noise = choose(X, rng.standard_normal(400), Settings())
    y_cells = choose(X, np.floor(8 * X[:, 0]) % 2 + 0.01 * rng.standard_normal(400), Settings())
    assert noise.stop >= 0.95
    assert y_cells.stop <= noise.stop
    loss = -fitted(X, rng.standard_normal(400), stop=noise.stop).predict_dist(X).logpdf(rng.standard_normal(400)).mean()
    assert loss < 1.52  # a normal of known scale has 1.419


@pytest.mark.parametrize("stop", [0.5, "auto"])
@pytest.mark.parametrize("value", [1.0, -7.3, 1e9, 0.0])
def test_intervals_of_a_constant_y_lie_about_it(stop, value):
    X = np.random.default_rng(0).normal(size=(100, 2))
    dist = ConditionalDensity(n_estimators=4, stop=stop).fit(X, np.full(100, value)).predict_dist(X)
    for level in (0.5, 0.9, 0.95):  # of 100 equal rows the next may well be another, with a probability of 1/102
        low, high = dist.interval(level)
        assert np.all((low <= value) & (value <= high))
        assert np.all(high - low <= 1e-3 * max(abs(value), 1.0))
    assert np.all(dist.cdf(value) > 0.5)
