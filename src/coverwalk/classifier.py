"""ContextClassifier: the probability of each class given x, by walks over a forest of contexts."""

from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from coverwalk._arrays import Floats
from coverwalk.files import schema as file
from coverwalk.files.estimators import Saved
from coverwalk.forest.category_choice import choose_groups
from coverwalk.forest.class_components import ClassComponent, components
from coverwalk.forest.class_forest import ClassForest, next_turn
from coverwalk.forest.class_rows import (
    ClassRows,
    check_classifier,
    checked_weights,
    joined,
    merged_classes,
    together,
)
from coverwalk.forest.class_tree import ClassGrowth
from coverwalk.forest.passes import Chunks, fit_chunks
from coverwalk.forest.schedule import NEVER
from coverwalk.locks import MANY_ROWS, adopt, alone, fits, reads, twin, writes
from coverwalk.preparation.columns import MixedInputs, MixedTags, input_names, read_inputs, recoded
from coverwalk.preparation.parameters import N_JOBS, n_threads

if TYPE_CHECKING:
    from coverwalk.forest.explain import Importance

__all__ = ["ContextClassifier"]

N_JUDGES = 8  # trees of each kind in the small forests that judge groups of categories
_CHECKED = ["n_estimators", "n_discriminant_trees", "held_out", "min_samples_leaf", "stop", "alpha"]


@file.stored(
    n_features_in_=file.Absent(file.Whole(1, 10**6)),
    feature_names_in_=file.Absent(file.Names("n_features_in_")),
    target_names_=file.Absent(file.List(file.Text(), 1)),
    classes_=file.Absent(file.Labels("C")),
    _mixed=file.Absent(file.Object(MixedInputs)),
    _seed=file.Absent(file.Whole(0, 2**31)),
    _declared=file.Absent(file.Flag()),
    _rows=file.Absent(file.List(file.Object(ClassRows, p="n_features_in_", C="C"), low=1)),
    _rows_grown=file.Absent(file.Whole(1)),
    _n_summed=file.Absent(file.Whole(0, 10**15)),
    _forest=file.Absent(file.Object(ClassForest, p="n_features_in_", C="C")),
    check=lambda state, scope: check_classifier(state),
)
@dataclass(eq=False, repr=False)
class ContextClassifier(Saved, MixedTags, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Calibrated class probabilities given x, predicted by a walk over a forest of contexts.

    Each tree grows on a part of the rows. The held-out rows decide how far the walk goes, whether class counts or a
    small discriminant analysis predict in a context, how the trees are pooled, and whether a sum of functions of single
    inputs joins them. Then all rows are learned. See ``docs/classes.md``.

    Parameters
    ----------
    n_estimators : int
        Number of trees with class counts only.
    n_discriminant_trees : int
        Number of further trees that also have discriminant analyses in their large contexts.
    held_out : int
        Each tree holds out one row in ``held_out`` while it grows.
    min_samples_leaf : int
        Minimum number of rows on either side of a split.
    stop : float
        Prior probability w that the walk stops in a context.
    alpha : float
        Number of rows that the prior of a context's class counts is worth. The prior is the parent's prediction.
    categorical_features : "from_dtype", None, or sequence of columns
        Categorical inputs, by name, number or mask; by default the categorical and text columns of a frame. Splits
        divide their categories into two sets; see docs/mixed_inputs.md. Missing values are NaN.
    n_jobs : int, optional
        Number of threads: None for one, -1 for all processors. The result does not depend on it.
    random_state : int, RandomState or None
        Seed of the splits and of the held-out rows.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted. The columns of `predict_proba` have this order.
    weights_, exponents_
        Weights of the two kinds of trees, and of the additive expert if there is one, in the mixture; and the exponents
        of the mixture and of each of them in the pooled probabilities.
    n_rows_ : int
        Number of rows learned.
    n_features_in_, feature_names_in_
        Number of inputs, and their names if X had names.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> model = ContextClassifier(random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.95
    True
    >>> model.predict_proba(X[:1]).round(2)
    array([[1., 0., 0.]])
    """

    _words = {  # noqa: RUF012
        "y": "array-like of shape (n,)\n    Labels of the rows.",
        "classes": "array-like, optional\n    In the first call, all labels that may come. By default, new labels are "
        "added when they come.",
        "top": "int\n    Maximum number of components, those with the largest weights first.",
        "predict ->": "ndarray of shape (n,)\n    Labels.",
        "contexts ->": "list of list of ClassComponent\n    One list for each row.",
    }
    _mixed = MixedInputs([])  # until a fit has seen categories

    n_estimators: Annotated[int, file.Whole(0, 10_000)] = 40
    n_discriminant_trees: Annotated[int, file.Whole("0 if n_estimators else 1", 10_000)] = 12
    _: KW_ONLY
    held_out: Annotated[int, file.Whole(2, 2**31)] = 4
    min_samples_leaf: Annotated[int, file.Whole(1, 2**31)] = 1
    stop: Annotated[float, file.Real(above=0, below=1)] = 0.1
    alpha: Annotated[float, file.Real(low=1e-100, high=1e100, whole=True)] = 1.0
    categorical_features: Annotated[Any, file.Plain()] = "from_dtype"
    n_jobs: Annotated[int | None, N_JOBS] = None
    random_state: Annotated[Any, file.Random()] = None
    _forest: ClassForest = field(init=False)

    @fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn rows and their labels. Anything learned before is discarded. A row with weight m counts as m rows."""
        self._check_parameters()
        X, y, weight = self._checked(X, y, sample_weight, reset=True, every=True)
        classes, codes = np.unique(y, return_inverse=True)
        rows, every = ClassRows(X, codes.astype(np.int64), weight), self._mixed
        self._mixed = choose_groups(
            rows, (every, every.frequent(X)), partial(self._log_proba_of, n_classes=len(classes))
        )
        return self._begin(rows._replace(X=recoded(X, every, self._mixed)), classes, declared=False)

    def _log_proba_of(self, rows: ClassRows, X: Floats, mixed: MixedInputs, n_classes: int) -> Floats:
        """What a small forest of some rows predicts for others."""
        kinds = [(replace(growth, n_categories=mixed.n_categories), min(n, N_JUDGES)) for growth, n in self._kinds()]
        threads = n_threads(self.n_jobs)
        return ClassForest.grow(rows, n_classes, kinds, self.held_out, 0, threads).log_proba(X, threads)

    @writes
    def fit_chunks(self, chunks: Chunks, **options: Any) -> Self:
        """Learn rows that come in chunks, with one chunk in memory at a time.

        The trees are grown on a sample, and then every row is counted in their contexts; see ``docs/scale.md``. If
        there are at most ``sample_rows`` rows, or 131,072, the result is that of `fit`. Otherwise the rows are not
        kept. Then `partial_fit` does not grow the forest again, and takes no new labels.
        """
        return fit_chunks(self, chunks, **options)

    _n_summed = 0  # rows that were learned by fit_chunks and later; a sample of them is kept

    def _plan_chunks(self, drawn: Any) -> Any:
        from coverwalk.forest.class_passes import plan_classes

        self._seed = int(check_random_state(self.random_state).randint(2**31))
        return plan_classes(self, self._kinds(), n_threads(self.n_jobs), drawn)

    @writes
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more rows, one by one.

        Each row is predicted first. Then it updates the counts and weights of its contexts in every tree. Trees are
        grown again from all rows in turn, each once while the number of rows doubles; the whole forest when it has
        doubled, or when a new class comes.
        """
        self._check_parameters()
        first, model = not hasattr(self, "classes_"), twin(self)  # the categories of rows that are refused are not kept
        X, y, weight = model._checked(X, y, sample_weight, reset=first, mixed=None if first else self._mixed.grown(X))
        known, declared = (None, False) if first else (self.classes_, self._declared)
        merged, declared = merged_classes(known, declared, classes, y)
        new = ClassRows(X, np.searchsorted(merged, y), weight)
        if first:
            return adopt(self, model._begin(new, merged, declared))
        n_rows = self.n_rows_ + len(y)
        if len(merged) > len(self.classes_) or (n_rows >= 2 * self._rows_grown and not self._n_summed):
            code = np.searchsorted(merged, self.classes_)
            rows = [part._replace(y=code[part.y]) for part in self._rows]
            return adopt(self, model._keep(together([*rows, new]), merged))
        if len(y) >= MANY_ROWS or n_rows >= self._next_turn()[1]:
            model._forest = self._forest.ready()
            return adopt(self, model._learn(new))
        with alone(self):
            self.__dict__ = model.__dict__
            return self._learn(new)

    def _learn(self, new: ClassRows) -> Self:
        """Learn rows one by one, and grow each tree again when its turn comes."""
        while len(new.y):
            turn, at = self._next_turn()
            rows, new = new.part(slice(at - self.n_rows_)), new.part(slice(at - self.n_rows_, None))
            self._forest.learn(rows, n_threads(self.n_jobs))
            if self._n_summed:
                self._n_summed += len(rows.y)
                continue
            self._rows: list[ClassRows] = joined([*self._rows, rows])
            if self.n_rows_ == at:
                rows, n_categories = together(self._rows), self._mixed.n_categories
                self._forest = self._forest.regrown(turn, rows, n_categories, self.held_out, self._seed)
        return self

    def _next_turn(self) -> tuple[int, int]:
        """Which tree grows again next, and at how many rows; without its earlier rows none can."""
        if self._n_summed:
            return 0, NEVER
        return next_turn(self.n_rows_, self._rows_grown, sum(len(trees) for _, trees in self._forest.kinds))

    @reads
    def predict_log_proba(self, X: Any) -> Floats:
        """Predict the log probability of each class."""
        check_is_fitted(self)
        X = read_inputs(self, X, reset=False)
        return self._forest.log_proba(X, n_threads(self.n_jobs))

    @reads
    def predict_proba(self, X: Any) -> Floats:
        """Predict the probability of each class. Rows sum to one."""
        check_is_fitted(self)
        return self._proba(read_inputs(self, X, reset=False))

    def _proba(self, X: Floats) -> Floats:
        """As `predict_proba`, of rows that are known to be in the order of the model's columns."""
        p = np.exp(self._forest.log_proba(X, n_threads(self.n_jobs)))
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    @reads
    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the most probable label of each row."""
        best = self.predict_log_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    @reads
    def contexts(self, X: Any, top: int = 5) -> list[list[ClassComponent]]:
        """The components of the prediction for each row: contexts and local models."""
        check_is_fitted(self)
        Z = read_inputs(self, X, reset=False)
        columns = input_names(self)
        return [components(self._forest, x, columns, self.classes_, top, self._mixed.category_names) for x in Z]

    @property
    def feature_importances_(self) -> Floats:
        """Log-loss gain by the splits on each feature, (p,), on held-out rows; they sum to one."""
        from coverwalk.forest.importance import class_gains, normalised

        check_is_fitted(self)
        return normalised(class_gains(self._forest, self.n_features_in_))

    def importance(self, X: Any, y: Any, *, n_repeats: int = 5, random_state: Any = 0) -> "Importance":
        """Permutation importance: the increase in log loss when one feature is shuffled among held-out rows."""
        from coverwalk.forest.explain import permutation_importance

        check_is_fitted(self)
        labels = np.asarray(y)
        if not np.isin(labels, self.classes_).all():
            raise ValueError(f"y has labels that the model has never seen; it knows {self.classes_.tolist()}")
        code = np.searchsorted(self.classes_, labels)

        def loss(rows: Any) -> float:
            return -float(np.mean(self.predict_log_proba(rows)[np.arange(len(code)), code]))

        return permutation_importance(self, X, loss, n_repeats, random_state)

    def __getstate__(self) -> dict[str, Any]:
        """What a file holds: not what the rows tell."""
        state = dict(super().__getstate__())
        if "_forest" in state:
            state["_forest"] = self._forest.stored(self._rows_of_growth, self.held_out)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickle; arrays that were mapped read-only into memory are copied, since trees learn in place."""
        super().__setstate__(state)
        if hasattr(self, "_forest"):
            self._forest = self._forest.restored(self._rows_of_growth, self.held_out)

    @property
    def _rows_of_growth(self) -> ClassRows | None:
        """The rows on which the forest was grown, if they are kept."""
        return None if self._n_summed else together(self._rows).part(slice(self._rows_grown))

    def _check_parameters(self) -> None:
        if self.n_estimators == self.n_discriminant_trees == 0:
            raise ValueError("there must be a tree: n_estimators and n_discriminant_trees are both 0")
        self._schema.check_parameters(vars(self), *_CHECKED)

    def _checked(
        self, X: Any, y: Any, sample_weight: Any, reset: bool, mixed: MixedInputs | None = None, every: bool = False
    ) -> tuple[Floats, NDArray[Any], Floats]:
        X, y = read_inputs(self, X, y, reset=reset, mixed=mixed, every=every)
        X = np.array(X)  # it is kept, and the caller may change his own
        return X, y, checked_weights(X, y, sample_weight)

    def _begin(self, rows: ClassRows, classes: NDArray[Any], declared: bool) -> Self:
        self._seed = int(check_random_state(self.random_state).randint(2**31))
        self._declared = declared
        return self._keep(rows, classes)

    def _keep(self, rows: ClassRows, classes: NDArray[Any]) -> Self:
        """Grow on all rows, and only then change."""
        from tqdm import tqdm

        kinds = self._kinds()
        with tqdm(total=sum(n for _, n in kinds), desc="trees", disable=None, leave=False) as bar:
            self._forest = ClassForest.grow(
                rows, len(classes), kinds, self.held_out, self._seed, n_threads(self.n_jobs), bar.update
            )
        self.classes_, self._rows, self._rows_grown, self._n_summed = classes, [rows], len(rows.y), 0
        return self

    @property
    def n_rows_(self) -> int:
        """How many rows were learned."""
        if "_rows" not in self.__dict__:
            check_is_fitted(self)  # which takes as long as half a tree's prediction
        return self._n_summed or sum(len(part.y) for part in self._rows)

    @property
    def weights_(self) -> Floats:
        """Of the trees that count, those with discriminants, and the additive expert if there is one; they sum to 1."""
        check_is_fitted(self)
        return self._forest.held_out_rows.weights

    @property
    def exponents_(self) -> Floats:
        """Of the mixture, then of each of its experts: together above 1 they sharpen the probabilities."""
        check_is_fitted(self)
        return self._forest.held_out_rows.exponents

    def _kinds(self) -> list[tuple[ClassGrowth, int]]:
        counts = {False: self.n_estimators, True: self.n_discriminant_trees}  # by whether they have discriminants
        prior = self.min_samples_leaf, self.stop, self.alpha, self._mixed.n_categories
        return [(ClassGrowth(kind, *prior), n) for kind, n in counts.items() if n > 0]
