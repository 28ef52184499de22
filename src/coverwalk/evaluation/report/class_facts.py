"""What the page shows of a classifier on rows of data, as plain values."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix

from coverwalk._arrays import Floats, Ints
from coverwalk.classifier import ContextClassifier
from coverwalk.evaluation.report.facts import N_SURPRISING, permuted_losses
from coverwalk.evaluation.scores import class_frequencies, class_reliability, learned_rows, n_learned


def gather_classes(
    model: ContextClassifier, X: Floats, labels: NDArray[Any], target: str, names: list[str]
) -> dict[str, Any]:
    """Of rows X (n, p), as the model's forest takes them, and labels that it knows."""
    code = np.searchsorted(model.classes_, labels)
    p = model._proba(X)
    own = p[np.arange(len(X)), code]
    with np.errstate(divide="ignore"):
        log_p = np.log(own)

    def losses(rows_X: Floats, rows: Ints) -> float:
        q = model._proba(rows_X)[np.arange(len(rows)), code[rows]]
        return -float(np.log(np.maximum(q, 1e-300)).mean())

    frequency = class_frequencies(model)
    trees = [tree for _, trees in model._forest.kinds for tree in trees]
    return {
        "kind": "classes",
        "target": target,
        "inputs": names,
        "n": len(X),
        "seen": n_learned(learned_rows(model), X, code) / len(X),
        "classes": [str(label) for label in model.classes_],
        "model": {
            "n_rows": model.n_rows_,
            "n_trees": len(trees),
            "n_contexts": sum(len(tree.tree) for tree in trees),
        },
        "losses": [
            _loss("coverwalk", log_p, p, code),
            _loss("class frequencies", np.log(frequency)[code], np.tile(frequency, (len(X), 1)), code),
        ],
        "reliability": [
            {"claimed": claimed, "accuracy": accuracy, "n": n}
            for claimed, accuracy, n in class_reliability(p, p.argmax(axis=1) == code)
        ],
        "confusion": confusion_matrix(code, p.argmax(axis=1), labels=np.arange(p.shape[1])).tolist(),
        "importances": permuted_losses(X, losses, names),
        "surprising": [
            {
                "row": int(i) + 1,
                "y": str(labels[i]),
                "predicted": str(model.classes_[p[i].argmax()]),
                "p": float(own[i]),
                "loss": float(min(-log_p[i], 1e300)),
            }
            for i in np.argsort(own)[:N_SURPRISING]
        ],
        "explore": None,
    }


def _loss(name: str, log_p: Floats, p: Floats, code: Ints) -> dict[str, Any]:
    return {
        "name": name,
        "loss": float(min(-log_p.mean(), 1e300)),
        "error": float(np.nan_to_num(log_p.std()) / np.sqrt(len(log_p))),
        "accuracy": float(np.mean(p.argmax(axis=1) == code)),
    }
