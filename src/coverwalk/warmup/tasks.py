"""What calls the kernels: each task is one part of the package, on a few rows."""

import pickle
import warnings
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import coverwalk


def run_task(name: str) -> None:
    """Run one task, without the warnings about its few rows."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        TASKS[name]()


def _rows(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 2))
    return X, np.sign(X[:, 0]) + 0.2 * rng.standard_normal(n)


def _evaluate(dist: Any) -> None:
    """Everything that a distribution of one output computes."""
    y = np.zeros(len(dist))
    for value in (y, np.zeros((1, 3))):
        dist.logpdf(value), dist.cdf(value)
    dist.sf(y), dist.mean(), dist.var(), dist.ppf(0.5), dist.ppf([0.1, 0.9]), dist.interval(0.9)
    dist.ppf(np.full((len(dist), 1), 0.5)), dist.rvs(random_state=0)
    dist.rvs(2, random_state=0), dist.entropy(), dist.crps(y)


def _distributions() -> None:
    from coverwalk.distributions.mixture import PredictiveDistribution
    from coverwalk.distributions.shapes import Shapes
    from coverwalk.preparation.rounding import Rounding

    cells = Shapes.cells([0.5, 0.5], [-1.0, 0.0], [1.0, 2.0])
    shapes = Shapes.join([Shapes.student([3.0, np.inf]), cells])
    for rounding in (None, Rounding(0.5, 0.0), Rounding(values=np.array([0.0]), width=np.array([0.1]))):
        dist = PredictiveDistribution([0, 2, 4], [0.5] * 4, [0.0] * 4, [1.0] * 4, [0, 1, 2, 0], shapes)
        dist.rounding = rounding
        _evaluate(dist)


def _prediction() -> None:
    """A forest of one context, which took no fit."""
    from coverwalk._kernels.forest.components import Records
    from coverwalk._kernels.forest.node import NODE
    from coverwalk._kernels.forest.records import at_rest
    from coverwalk.distributions.shapes import Shapes
    from coverwalk.forest.forest import Forest
    from coverwalk.forest.members import FittedTree
    from coverwalk.forest.settings import Settings
    from coverwalk.forest.tree import Tree
    from coverwalk.preparation.scaling import Scaling

    X, y = _rows(30)
    records = Records(
        first=np.array([0, 1]),
        kind=np.array([0]),
        weight=np.ones((1, 1)),
        s2=np.ones(1),
        low=np.full((1, 2), -1.0),
        high=np.full((1, 2), 1.0),
        centre=np.zeros((1, 6)),
        mean=np.zeros(1),
        degree=np.array([0]),
        n_rows=np.array([30]),
    )
    tree = Tree(np.array([(0.0, 0, -1, -1)], NODE))
    fitted = FittedTree(records, np.zeros(1, np.int32), Shapes.student([5.0]), at_rest(records))
    units = Scaling.of(X), Scaling.of(y[:, None], squash=False)
    forest = Forest(Settings(n_trees=1), *units, [tree], X, y, ["a", "b"], fitted=[fitted])
    forest.predict_dist(X[:2])
    forest.predict_dists(X[:2])


def _forest() -> None:
    X, y = _rows(200)
    for target in (y, np.round(y, 1), np.where(y > 0, 1.0, y)):
        model = coverwalk.ConditionalDensity(3, random_state=0).fit(X[:, :1], target)
        _evaluate(model.predict_dist(X[:2, :1]))
        model.explain(X[0, :1])
    model = coverwalk.ConditionalDensity(2, stop=0.5, random_state=0).fit(
        X, y, sample_weight=np.linspace(0.5, 1.5, len(y))
    )
    model.predict_dist(X[:2]).logpdf(y[:2])
    with TemporaryDirectory() as folder:
        model.save(f"{folder}/model.cover")
        coverwalk.ConditionalDensity.load(f"{folder}/model.cover").predict_dist(X[:2])


def _mixed() -> None:
    X, y = _rows(120)
    X[:, 1] = np.arange(120) % 3
    X[::7, 0] = np.nan
    model = coverwalk.ConditionalDensity(2, random_state=0, categorical_features=[1]).fit(X, y)
    model.predict_dist(X[:2]).logpdf(y[:2])


def _stream() -> None:
    X, y = _rows(100)
    model = coverwalk.ConditionalDensity(2, random_state=0).partial_fit(X, y)
    _evaluate(model.predict_dist(X[:2]))


def _chunks() -> None:
    from coverwalk.forest.settings import Settings
    from coverwalk.forest.sums import ForestSums

    X, y = _rows(400)
    sums = ForestSums.plan(X[:200], y[:200], Settings(n_trees=2))
    sums.accumulate(X, y)
    shapes = sums.finish()
    shapes.accumulate(X, y)
    shapes.finish().predict_dist(X[:2])


def _outputs() -> None:
    X, y = _rows(120)
    dist = coverwalk.ConditionalDensity(2, random_state=0).fit(X, np.column_stack([y, X[:, 1] - y])).predict_dist(X[:2])
    dist.logpdf(np.zeros((2, 2))), dist.rvs(2, random_state=0), dist.mean(), dist.cdf(np.zeros((2, 2)))


def _classes() -> None:
    X, y = _rows(120)
    model = coverwalk.ContextClassifier(2, random_state=0).fit(X, y > 0)
    model.predict_proba(X)
    model.partial_fit(X[:20], y[:20] > 0)
    model.predict_proba(X)


def _density() -> None:
    X, _ = _rows(120)
    for columns in (1, 2):
        model = coverwalk.Density(2, random_state=0).fit(X[:, :columns])
        model.score_samples(X[:2, :columns])
        model.sample(3, random_state=0)


def _sequences() -> None:
    from coverwalk.sequences.change_points import change_points
    from coverwalk.sequences.compression import compress, decompress

    change_points("abcabccab" * 6)
    model = coverwalk.SequenceModel("abc", depth=4).fit("abcabccab" * 6)
    model.score("abcab"), model.predict_proba("ab"), model.sample(5), pickle.loads(pickle.dumps(model))
    decompress(compress(b"abcabccab" * 20))


def _double_tree() -> None:
    X, y = _rows(60)
    for target in (y, np.column_stack([y, X])):
        model = coverwalk.DoubleTree().fit(X, target)
        model.logpdf(X[:2], target[:2]), pickle.loads(pickle.dumps(model))
    coverwalk.DoubleTree().fit(X, y).predict_dist(X[:2]).ppf(0.5)


TASKS: dict[str, Callable[[], None]] = {  # the longest first
    "forest": _forest,
    "prediction": _prediction,
    "distributions": _distributions,
    "double tree": _double_tree,
    "classes": _classes,
    "stream": _stream,
    "sequences": _sequences,
    "density": _density,
    "chunks": _chunks,
    "mixed": _mixed,
    "outputs": _outputs,
}
