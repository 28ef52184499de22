"""The laws of a local model, on every class that `coverwalk.local` exports."""

import pickle

import numpy as np
import pytest
from scipy import integrate, stats

import coverwalk.local
from coverwalk.base import LocalModel, RealPosterior
from coverwalk.local import Dirichlet, KernelDensity, Polynomial, TreeDensity
from coverwalk.local._heavy_tails import HEAVY_TAILED

EXAMPLES = {
    "Polynomial": [Polynomial(0), Polynomial(1, ridge=0.3), Polynomial(2, nu=4, scatter=0.5), Polynomial(1, q=2)],
    "TreeDensity": [
        TreeDensity(),
        TreeDensity(max_depth=6, a=1.0, stop=0.3, loc=1.0, scale=2.0),
        TreeDensity(q=2),
        TreeDensity(max_depth=9, loc=0.5, dist="flat"),
    ],
    "KernelDensity": [KernelDensity(), KernelDensity(loc=-1.0, scale=3.0, bandwidths=4), KernelDensity(q=2)],
    "Dirichlet": [Dirichlet([0, 1]), Dirichlet(["a", "b", "c"], concentration=2.0)],
}
ALL = [(model, i) for models in EXAMPLES.values() for i, model in enumerate(models)]
IDS = [f"{type(model).__name__}-{i}" for model, i in ALL]
every = pytest.mark.parametrize("model", [model for model, _ in ALL], ids=IDS)
real = pytest.mark.parametrize(
    "model", [m for m, _ in ALL if not isinstance(m, Dirichlet)], ids=[i for i in IDS if "Dirichlet" not in i]
)


def rows(model, n=25, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    if isinstance(model, Dirichlet):
        return list(zip(X, (model.alphabet[i] for i in rng.integers(len(model.alphabet), size=n))))
    Y = X[:, :1] + np.where(rng.random((n, model.q)) < 0.5, -1.0, 1.0) + 0.2 * rng.standard_normal((n, model.q))
    return list(zip(X, Y))


def learned(model, data):
    posterior = model.start()
    for x, y in data:
        posterior.update(x, y)
    return posterior


def test_every_local_model_has_examples():
    exported = {name for name in coverwalk.local.__all__ if issubclass(getattr(coverwalk.local, name), LocalModel)}
    assert exported == set(EXAMPLES)


@every
def test_predictives_chain_to_the_evidence(model):
    posterior, total = model.start(), 0.0
    for x, y in rows(model):
        total += posterior.logpdf(x, y)
        posterior.update(x, y)
        assert posterior.log_evidence() == pytest.approx(total, abs=1e-9)


@every
def test_order_does_not_matter_where_it_is_promised(model):
    data = rows(model)
    forward, backward = learned(model, data), learned(model, data[::-1])
    x, y = data[3]
    same_evidence = forward.log_evidence() == pytest.approx(backward.log_evidence(), abs=1e-9)
    same_prediction = forward.logpdf(x, y) == pytest.approx(backward.logpdf(x, y), abs=1e-9)
    assert (same_evidence and same_prediction) == model.exchangeable


@every
@pytest.mark.parametrize("cut", [0, 9, 25])
def test_merge_equals_having_seen_both(model, cut):
    data = rows(model)
    whole, left, right = learned(model, data), learned(model, data[:cut]), learned(model, data[cut:])
    if not model.exchangeable:
        with pytest.raises(ValueError, match="do not merge"):
            left.merge(right)
        return
    left.merge(right)
    x, y = rows(model, seed=1)[0]
    assert left.log_evidence() == pytest.approx(whole.log_evidence(), abs=1e-9)
    assert left.logpdf(x, y) == pytest.approx(whole.logpdf(x, y), abs=1e-9)


@every
def test_asking_changes_nothing(model):
    data = rows(model)
    posterior = learned(model, data)
    before = pickle.dumps(posterior)
    x, y = data[0]
    posterior.logpdf(x, y)
    posterior.log_evidence()
    posterior.sample(x, np.random.default_rng(0))
    if isinstance(posterior, RealPosterior):
        posterior.mean(x), posterior.var(x)
    assert pickle.dumps(posterior) == before


@real
@pytest.mark.parametrize("n", [0, 1, 25])
def test_densities_integrate_to_one(model, n):
    posterior = learned(model, rows(model, n))
    x = np.array([0.3, -0.8])

    # y = tan(t): the whole line, with its heavy tails, on a finite interval
    def integrand(*t):
        y = np.tan(t)
        return np.exp(posterior.logpdf(x, y)) * np.prod(1 + y**2)

    if model.q == 1:
        cuts = np.arctan(np.r_[-1e4, -30, np.linspace(-6, 6, 241), 30, 1e4])
        edges = np.r_[-np.pi / 2 + 1e-9, cuts, np.pi / 2 - 1e-9]
        if isinstance(model, TreeDensity):  # piecewise: integrate cell by cell
            u = np.linspace(0, 1, 2**model.max_depth + 1)[1:-1]
            edges = np.r_[edges[0], np.arctan(HEAVY_TAILED[model.dist].ppf(u, model.loc, model.scale)), edges[-1]]
        nodes, weights = np.polynomial.legendre.leggauss(6)
        t = edges[:-1, None] + np.diff(edges)[:, None] * (nodes + 1) / 2
        total = sum(integrand(value) * w for value, w in zip(t.ravel(), np.outer(np.diff(edges), weights / 2).ravel()))
        assert total == pytest.approx(1.0, abs=1e-4)
    else:
        # y = F^-1(u) of Student's t with 2 degrees of freedom: midpoints of 128 x 128 equal cells of (0, 1)^2
        u = (np.arange(128) + 0.5) / 128
        y, log_f = stats.t.ppf(u, 2), stats.t.logpdf(stats.t.ppf(u, 2), 2)
        densities = [
            [posterior.logpdf(x, np.array([y[i], y[j]])) - log_f[i] - log_f[j] for i in range(128)] for j in range(128)
        ]
        assert np.exp(densities).mean() == pytest.approx(1.0, abs=1e-9 if isinstance(model, TreeDensity) else 2e-3)


@pytest.mark.parametrize("model", EXAMPLES["Dirichlet"])
def test_masses_sum_to_one(model):
    posterior = learned(model, rows(model))
    assert sum(np.exp(posterior.logpdf(None, y)) for y in model.alphabet) == pytest.approx(1.0, abs=1e-12)


@real
def test_cdf_is_the_integral_of_the_density(model):
    posterior = learned(model, rows(model))
    x = np.array([0.3, -0.8])
    if model.q > 1:
        with pytest.raises(ValueError, match="one output"):
            posterior.cdf(x, 0.0)
        return
    points = None
    if isinstance(model, TreeDensity):
        points = [
            v for v in model.loc + model.scale * stats.t.ppf(np.linspace(0, 1, 2**9 + 1)[1:-1], 2) if 0.1 < v < 0.9
        ]
        points = points[:: max(1, len(points) // 40)]
    mass, _ = integrate.quad(lambda y: np.exp(posterior.logpdf(x, y)), 0.1, 0.9, points=points, limit=400)
    assert posterior.cdf(x, 0.9) - posterior.cdf(x, 0.1) == pytest.approx(mass, abs=2e-4)
    assert posterior.cdf(x, -1e9) == pytest.approx(0.0, abs=1e-6)
    assert posterior.cdf(x, 1e9) == pytest.approx(1.0, abs=1e-6)


@real
def test_samples_agree_with_the_law(model):
    posterior = learned(model, rows(model))
    x, rng = np.array([0.3, -0.8]), np.random.default_rng(7)
    draws = np.array([posterior.sample(x, rng) for _ in range(600)])
    assert draws.shape == (600, model.q)
    if model.q == 1:
        cdf = np.vectorize(lambda y: posterior.cdf(x, y))
        assert stats.kstest(draws[:, 0], cdf).pvalue > 1e-3
    else:  # the median of each output splits the draws as its mean side does
        centre = posterior.mean(x)
        assert (np.abs(np.median(draws, axis=0) - centre) < 1.5).all()


@pytest.mark.parametrize("model", EXAMPLES["Dirichlet"])
def test_symbols_are_drawn_as_often_as_they_should(model):
    posterior, rng = learned(model, rows(model)), np.random.default_rng(0)
    draws = [posterior.sample(None, rng) for _ in range(4000)]
    observed = [draws.count(y) for y in model.alphabet]
    expected = [4000 * p for p in posterior.probabilities().values()]
    assert stats.chisquare(observed, expected).pvalue > 1e-3


@real
def test_mean_and_variance(model):
    """Against quadrature of the quantile function of samples' law where finite."""
    posterior = learned(model, rows(model))
    x = np.array([0.3, -0.8])
    if model.q == 1:
        # E[Y] = integral of 1 - F above 0 minus integral of F below 0
        grid = np.tan(np.linspace(0, np.pi / 2, 602)[1:-1])
        upper = integrate.trapezoid([1 - posterior.cdf(x, y) for y in grid], grid)
        lower = integrate.trapezoid([posterior.cdf(x, -y) for y in grid], grid)
        assert posterior.mean(x)[0] == pytest.approx(upper - lower, abs=5e-2)
    var = posterior.var(x)
    assert var.shape == (model.q,)
    assert (np.isinf(var) if isinstance(model, (TreeDensity, KernelDensity)) else var > 0).all()


@real
@pytest.mark.parametrize("y", [1e300, -1e300, 1e160])
def test_absurd_y_is_finite_and_low(model, y):
    posterior = learned(model, rows(model))
    value = posterior.logpdf(np.array([0.3, -0.8]), np.full(model.q, y))
    assert -1e6 < value < -500


# Against SciPy, where SciPy has the law


@pytest.mark.parametrize("q", [1, 2, 3])
def test_degree_0_is_scipys_multivariate_t(q):
    rng = np.random.default_rng(q)
    Y = rng.standard_normal((12, q)) + 2
    posterior = Polynomial(0, q=q, ridge=0.7, nu=q + 2.5, scatter=1.3).start()
    for y in Y:
        posterior.update(None, y)
    # Normal-Wishart by the textbook: sums about the mean
    n, kappa = 12, 0.7 + 12
    mean, S = Y.mean(0), np.cov(Y.T, bias=True).reshape(q, q) * n
    Psi = 1.3 * np.eye(q) + S + 0.7 * n / kappa * np.outer(mean, mean)
    df = q + 2.5 + n - q + 1
    dist = stats.multivariate_t(n * mean / kappa, Psi * (kappa + 1) / (kappa * df), df=df)
    for y in rng.standard_normal((5, q)) * 3:
        assert posterior.logpdf(None, y) == pytest.approx(dist.logpdf(y), abs=1e-10)


def test_line_is_scipys_t_with_the_textbook_parameters():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((15, 2)), rng.standard_normal(15)
    posterior = Polynomial(1, ridge=0.5, nu=3.0, scatter=2.0).start()
    for x, value in zip(X, y):
        posterior.update(x, value)
    F = np.column_stack([np.ones(15), X])
    Lam = 0.5 * np.eye(3) + F.T @ F
    B = np.linalg.solve(Lam, F.T @ y)
    Psi, df = 2.0 + y @ y - B @ Lam @ B, 18.0
    f = np.array([1.0, 0.4, -1.2])
    scale = np.sqrt(Psi * (1 + f @ np.linalg.solve(Lam, f)) / df)
    assert posterior.logpdf(f[1:], 0.3) == pytest.approx(stats.t(df, f @ B, scale).logpdf(0.3), abs=1e-10)
    assert posterior.cdf(f[1:], 0.3) == pytest.approx(stats.t(df, f @ B, scale).cdf(0.3), abs=1e-12)


def test_dirichlet_is_scipys_dirichlet_multinomial():
    model = Dirichlet("abc", concentration=0.7)
    posterior = model.start()
    for y in "abacab":
        posterior.update(None, y)
    counts = [3, 2, 1]
    orders = 60  # 6! / (3! 2! 1!)
    expected = stats.dirichlet_multinomial([0.7] * 3, 6).logpmf(counts) - np.log(orders)
    assert posterior.log_evidence() == pytest.approx(expected, abs=1e-12)


def test_tree_density_without_data_is_scipys_t():
    model = TreeDensity(loc=1.0, scale=2.0)
    for y in (-3.0, 0.0, 10.0):
        assert model.start().logpdf(None, np.array([y])) == pytest.approx(stats.t(2, 1.0, 2.0).logpdf(y), abs=1e-12)


def test_tree_density_is_the_enumeration_of_two_levels():
    """Depth 2, three points, by hand: stop at the root; or halve, and stop or halve in each half."""
    model = TreeDensity(max_depth=2, a=1.0, stop=0.4)
    ys = stats.t.ppf([0.1, 0.2, 0.9], 2)  # cells 00, 00, 11
    posterior = model.start()
    for y in ys:
        posterior.update(None, np.array([y]))
    left = 0.4 + 0.6 * (2 * 1 / (3 * 2)) * 4  # B(3, 1) / B(1, 1) = 1/3
    right = 0.4 + 0.6 * 0.5 * 2
    Z = 0.4 + 0.6 * (2 * 1 / (4 * 3 * 2)) * 8 * left * right  # B(3, 2) = 2! 1! / 4!
    assert posterior.log_evidence() == pytest.approx(np.log(Z) + stats.t(2).logpdf(ys).sum(), abs=1e-12)


@pytest.mark.parametrize("model", [Polynomial(1), KernelDensity(), Dirichlet("ab")], ids=lambda m: type(m).__name__)
def test_a_child_starts_from_what_its_parent_believes(model):
    rng = np.random.default_rng(0)
    parent = model.start()
    for x in rng.standard_normal((60, 1)):
        parent.update(x, "a" if isinstance(model, Dirichlet) else np.array([3 * x[0] + 0.01 * rng.standard_normal()]))
    child = model.start(parent)
    x, y = np.array([1.0]), "a" if isinstance(model, Dirichlet) else np.array([3.0])
    if isinstance(model, KernelDensity):
        np.testing.assert_allclose(child.log_weight, parent.log_weight)
    else:
        assert child.logpdf(x, y) > model.start().logpdf(x, y) + 0.5
    assert child.log_evidence() == 0.0


BAD = {
    "NaN": (Polynomial(0), [0.0], np.nan, "finite"),
    "infinite x": (Polynomial(1), [np.inf], 0.0, "finite"),
    "text": (TreeDensity(), [0.0], "high", "number"),
    "two outputs for one": (KernelDensity(), [0.0], [1.0, 2.0], "1 number"),
    "squares overflow": (Polynomial(0), [0.0], 1e200, "rescale"),
    "unseen symbol": (Dirichlet("ab"), "x", "z", "alphabet"),
    "empty": (TreeDensity(q=2), [0.0], [], "2 numbers"),
}


@pytest.mark.parametrize(("model", "x", "y", "says"), BAD.values(), ids=BAD)
def test_bad_rows_are_refused_with_a_reason(model, x, y, says):
    with pytest.raises(ValueError, match=says):
        model.check_learnable(*model.check(x, y))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Polynomial(3),
        lambda: Polynomial(0, ridge=0),
        lambda: Polynomial(0, q=3, nu=1),
        lambda: TreeDensity(stop=1.0),
        lambda: TreeDensity(max_depth=99),
        lambda: KernelDensity(scale=0),
        lambda: Dirichlet("aa"),
        lambda: Dirichlet("ab", concentration=0),
    ],
)
def test_bad_priors_are_refused(make):
    with pytest.raises(ValueError, match="must"):
        make()
