"""Small models of every kind and state that files hold, each with what to do with one that was loaded."""

import numpy as np
import pandas as pd

from coverwalk import (
    ConditionalDensity,
    ContextClassifier,
    CoverModel,
    Density,
    DoubleTree,
    SequenceClassifier,
    SequenceModel,
)
from coverwalk.covers import ChoiceBoxes, DyadicBoxes, KDTree, ShiftedGrids, SuffixTree
from coverwalk.datasets import MIXTURES
from coverwalk.local import Dirichlet, KernelDensity, Polynomial, TreeDensity

RNG = np.random.default_rng(0)
X, Y = RNG.uniform(-1, 1, (60, 2)), RNG.standard_normal((60, 2))
GAPS = np.where(RNG.random((60, 2)) < 0.1, np.nan, X)
FRAME = pd.DataFrame({"a": X[:, 0], "b": RNG.choice(["u", "v", "w"], 60), "c": GAPS[:, 1]})
LABELS = np.array(["no", "yes", "maybe"])[np.arange(60) % 3]


def named(X, model):
    """The rows as the model knows them: a file may change the names of columns, and which of them are categories."""
    if not isinstance(X, pd.DataFrame):
        return X
    X = X.set_axis(getattr(model, "feature_names_in_", X.columns), axis=1)
    texts = [name for name in X if X[name].dtype.kind not in "fi"]
    numbers = [name for name, known in zip(X, model._mixed.categories or [[]] * X.shape[1]) if not known]
    return X.assign(**{name: np.arange(len(X)) % 3.0 for name in texts if name in numbers})


def rows(X, y):
    def use(model):
        rows = named(X, model)
        model.logpdf(rows, y)
        if np.ndim(y) == 1:
            model.predict_dist(rows[:5]).cdf(0.0)
        try:
            model.partial_fit(rows[:1], y[:1])
        except ValueError as error:
            if "crosses its bounds" not in str(error):  # bounds that somebody else could have given
                raise

    return use


def points(X):
    def use(model):
        model.score_samples(X)
        model.predict_dist()
        if hasattr(model, "partial_fit"):
            model.partial_fit(X[:1])

    return use


def labels(X):
    def use(model):
        rows = named(X, model)
        model.predict_proba(rows)
        model.contexts(rows[:2])
        model.partial_fit(rows[:1], model.classes_[:1])

    return use


def sequence(text):
    def use(model):
        symbols = text
        if not model._alphabet.grows:  # a file may have other symbols
            codes = ["abc".index(letter) for letter in text] if isinstance(text, str) else text
            symbols = model._alphabet.decode(codes)
        check(model, symbols)

    def check(model, text):
        model.log_loss(text)
        model.predict_proba(text[:2])
        model.sample(3, seed=0)
        model.explain(text[:3])
        model.anomaly_scores(text)
        model.update(text[:1])
        model.partial_fit(text)

    return use


def documents(texts):
    def use(model):
        model.predict_proba(texts)

    return use


def cover(x, y):
    def use(model):
        model.log_predict(x, y)
        model.posterior(x)
        model.update(x, y)

    return use


def nothing(model):
    repr(model)


def in_growth(model, X, y, whole=False):
    """The model in the midst of a growth, of one tree or of all."""
    for start in range(0, len(y), 5):
        growing = model.partial_fit(X[start : start + 5], y[start : start + 5]).stream_.streams[0].growing
        if growing is not None and growing.result().whole == whole:
            return model
    raise AssertionError("nothing grows")


def models():
    """Name, model and use of each."""
    y = Y[:, 0]
    ring, z = MIXTURES["ring"].make(100, 0)
    wide = RNG.uniform(-1, 1, (1100, 2))
    long = np.random.default_rng(1).uniform(-1, 1, (1400, 2))
    yield "forest", ConditionalDensity(2, stop=0.5).fit(X, y), rows(X, y)
    yield "forest, chosen", ConditionalDensity(2).fit(ring, z), rows(ring, z)
    rounded = np.round(2 * wide[:500, 0] + RNG.standard_normal(500))
    yield "forest, rounded", ConditionalDensity(2).fit(wide[:500], rounded), rows(X, np.round(y))
    heap = np.where(y > 0.5, 1.0, y)  # values that pile up at a bound
    yield "forest, bounded", ConditionalDensity(2, bounds=(None, 1.0)).fit(X, heap), rows(X, heap)
    skewed = np.round(np.exp(2 * wide[:600, 0] + np.sin(3 * wide[:600, 1]) + 0.2 * RNG.standard_normal(600)), 2)
    yield "forest, skewed", ConditionalDensity(2).fit(wide[:600], skewed), rows(X, np.round(np.exp(y), 2))
    atoms = np.where(RNG.random(500) < 0.3, 0.0, 2 * wide[:500, 0] + RNG.standard_normal(500))
    yield "forest, atoms", ConditionalDensity(2).fit(wide[:500], atoms), rows(X, np.where(y > 0.5, 0.0, y))
    dry = np.random.default_rng(2).random(500) < 1 / (1 + np.exp(-6 * wide[:500, 1]))
    rain = np.where(dry, 0.0, np.exp(wide[:500, 0] + 0.3 * RNG.standard_normal(500)))
    for name, bounds in (("apart", None), ("apart and bounded", (0, None))):
        apart = ConditionalDensity(2, bounds=bounds).fit(wide[:500], rain)
        assert apart.forests_[0].settings.atoms is not None
        yield f"forest, atoms {name}", apart, rows(X, np.maximum(y, 0.0))
    stream = ConditionalDensity(2).fit(wide[:500], rain).partial_fit(wide[:40], rain[:40])
    yield "stream, atoms apart", stream, rows(X, np.maximum(y, 0.0))
    slips = np.where(np.arange(500) % 250 == 0, 1e4, 2 * wide[:500, 0] + RNG.standard_normal(500))
    outliers = ConditionalDensity(2).fit(wide[:500], slips)
    assert outliers.forests_[0].settings.outliers is not None
    yield "forest, outliers", outliers, rows(X, y)
    calibrated = ConditionalDensity(2, stop=0.5).fit(X[:40], y[:40]).calibrate(X[40:], y[40:])
    yield "forest, calibrated", calibrated, rows(X, y)
    chunks = [(wide[s : s + 220], wide[s : s + 220, 0] + RNG.standard_normal(220)) for s in range(0, 1100, 220)]
    yield "forest, chunks", ConditionalDensity(2).fit_chunks(chunks, sample_rows=200), rows(X, y)
    many = np.random.default_rng(3).uniform(-1, 1, (500, 6))
    steps = np.sign(many[:, 0]) + np.sin(8 * many[:, 1]) + np.cos(7 * many[:, 2]) + np.abs(many[:, 3])
    added = ConditionalDensity(4, random_state=0).fit(many, steps + 0.1 * np.random.default_rng(4).standard_normal(500))
    assert added.forests_[0].trend is not None
    assert len(added.forests_[0].trend.curves.column) > 2
    yield "forest, curves", added, rows(many[:50], steps[:50])
    of, draw = np.random.default_rng(99), np.random.default_rng(0)
    sound, start, slope = of.normal(size=(25, 10)), of.normal(size=25), of.normal(size=25)
    who, when = draw.integers(0, 25, 500), draw.uniform(0, 1, 500)
    sounds = np.column_stack([who, when, sound[who] + 0.5 * draw.standard_normal((500, 10))])
    said = start[who] + slope[who] * when + 0.05 * draw.standard_normal(500)
    fewer = ConditionalDensity(4, random_state=0).fit(sounds, said)
    assert fewer.forests_[0].settings.unused
    yield "forest, inputs left out", fewer, rows(sounds[:50], said[:50])
    shops = pd.DataFrame({"shop": [f"shop {k}" for k in draw.integers(0, 150, 1200)], "x": draw.uniform(size=1200)})
    sales = shops["shop"].map(dict(zip(shops["shop"].unique(), draw.normal(size=150)))).to_numpy() + 0.1 * draw.normal(
        size=1200
    )
    effects = ConditionalDensity(2, stop=0.5).fit(shops, sales)
    assert effects._mixed.effects
    yield "forest, effects", effects, rows(shops[:50], sales[:50])
    yield "forest, mixed", ConditionalDensity(2, stop=0.5).fit(FRAME, y), rows(FRAME, y)
    yield "forest, outputs", ConditionalDensity(2, stop=0.5).fit(X, Y), rows(X, Y)
    yield "forest, not fitted", ConditionalDensity(), nothing
    yield "stream", ConditionalDensity(3).partial_fit(X, y), rows(X, y)
    yield "stream, mixed", ConditionalDensity(3).partial_fit(FRAME, y), rows(FRAME, y)
    steps = ConditionalDensity(2).partial_fit(wide[:300], np.round(2 * wide[:300, 0]))
    yield "stream, rounded", steps, rows(X, np.round(y))
    yield "stream, outputs", ConditionalDensity(2).partial_fit(X, Y), rows(X, Y)
    yield "stream, fitted", ConditionalDensity(2, stop=0.5).fit(X, y).partial_fit(X[:5], y[:5]), rows(X, y)
    yield "stream in mid-growth", in_growth(ConditionalDensity(3), wide, wide[:, 0]), rows(X, y)
    left = np.where(np.arange(1400) < 1060, np.round(long[:, 0], 1), long[:, 0])  # a grid: then all trees grow
    whole = in_growth(ConditionalDensity(4, stop=0.5, max_contexts=15), long, left, whole=True)
    yield "stream in mid-growth of all trees", whole, rows(X, y)
    yield "double tree", DoubleTree().fit(X, y), rows(X, y)
    yield "double tree, gaps", DoubleTree(priors="fixed", settle=16).fit(GAPS, y), rows(GAPS, y)
    yield "double tree, outputs", DoubleTree(walk="refine").fit(X, Y), rows(X, Y)
    yield "double tree, categories", DoubleTree().fit(FRAME, y), rows(FRAME, y)
    yield "density", Density(2).fit(y), points(y)
    yield "density, columns", Density(2).fit(Y), points(Y)
    country, of = draw.integers(0, 100, 600), draw.integers(0, 3, 100)
    lands = pd.DataFrame({"country": [f"c{k}" for k in country], "x": draw.uniform(size=600)})
    grouped = ContextClassifier(2, 2, random_state=0).fit(lands, of[country])
    assert grouped._mixed.grouped
    yield "classes, grouped", grouped, labels(lands[:50])
    classifier = ContextClassifier(2, 2, random_state=0)
    yield "classes", classifier.fit(X, LABELS), labels(X)
    yield (
        "classes, mixed",
        ContextClassifier(2, 2, random_state=np.random.RandomState(0)).fit(FRAME, LABELS),
        labels(FRAME),
    )
    learned = ContextClassifier(2, 1, random_state=0).partial_fit(X[:40], LABELS[:40]).partial_fit(X[40:], LABELS[40:])
    yield "classes, stream", learned, labels(X)
    chunks = [(X[:30], LABELS[:30]), (X[30:], LABELS[30:])]
    yield "classes, chunks", ContextClassifier(2, 1, random_state=0).fit_chunks(chunks, sample_rows=40), labels(X)
    codes = np.arange(240) * 7 % 240
    table = pd.DataFrame(
        {"a": codes % 4 / 2.0, "b": np.array(list("uvw"))[codes % 3], "c": np.array(list("xyz"))[codes // 12 % 3]}
    )
    table.loc[::9, "a"] = np.nan
    additive = ContextClassifier(2, 2, random_state=0).fit(table, LABELS[(codes % 3 + codes // 12 % 3) % 3])
    yield "classes, additive", additive, labels(table[:20])
    yield "sequence", SequenceModel(alphabet="abc").fit("abcabccbaabc" * 4), sequence("abcab")
    yield "sequence, refining", SequenceModel(walk="refine", depth=5).fit("abcabccbaabc" * 4), sequence("abcab")
    yield "sequence, dirichlet", SequenceModel(estimator="dirichlet").fit("abcabccbaabc"), sequence("abcab")
    yield "sequence, suffixes of bytes", SequenceModel(effort=0).fit(b"abcabccbaabc"), sequence(b"abcab")
    texts, kinds = ["abab", "baba", "ccab", "bcca"], ["u", "u", "v", "v"]
    yield "sequence classifier", SequenceClassifier().fit(texts, kinds), documents(texts)
    yield "sequence, lattice", SequenceModel(memory="8MB").fit_documents([b"abcab", b"cab"]), sequence(b"abcab")
    reals = [Polynomial(1), TreeDensity(max_depth=6), KernelDensity()]
    for name, boxes in (
        ("kd-tree", KDTree()),
        ("boxes", DyadicBoxes(-1, 1, 2)),
        ("choice", ChoiceBoxes(-1, 1, 2)),
        ("grids", ShiftedGrids(-1, 1, 2)),
    ):
        model = CoverModel(boxes, reals, priors="parent", walk="coarsen" if name == "grids" else "refine")
        model.update_many(X[:12, :1], y[:12])
        yield f"cover model, {name}", model, cover(X[20, :1], 0.3)
    letters = CoverModel(SuffixTree(2), Dirichlet("ab"))
    letters.update_many(["", "a", "ab", "aba"], "abab")
    yield "cover model, letters", letters, cover("ba", "a")
