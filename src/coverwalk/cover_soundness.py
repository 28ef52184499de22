"""What must hold of a CoverModel that came from a file: each part is one that its own class could have made.

Parameters are checked by the constructors that check a user's. What was learned is checked part by part, so that a
model that loads also answers and learns.
"""

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from coverwalk._sound import check_array, hold, is_real, is_whole
from coverwalk.base import Cover, LocalModel, Posterior
from coverwalk.covers.boxes import ChoiceBoxes, DyadicBoxes, ShiftedGrids
from coverwalk.covers.kdtree import KDTree, _Node
from coverwalk.covers.suffix import SuffixTree
from coverwalk.local.dirichlet import Dirichlet, DirichletPosterior
from coverwalk.local.kernel_density import KernelDensity, KernelDensityPosterior
from coverwalk.local.polynomial import Polynomial, PolynomialPosterior
from coverwalk.local.tree_density import TreeDensity, TreeDensityPosterior

__all__ = ["check_cover", "check_local", "check_log_weights", "check_posterior", "n_inputs"]

_ROUNDING = 1e-6
_MOST = 10_000  # levels, outputs, grids: more than any model has, and still an answer in time
_LARGEST = 1e160  # coefficients: y stays below 1e150, and the ridge bounds them by about that


def check_log_weights(name: str, log_weight: Any, n: int) -> None:
    """Raise ValueError unless these are n logarithms of weights that sum to one."""
    check_array(name, log_weight, (n,), finite=False)
    hold(name, log_weight <= _ROUNDING)
    hold(name, abs(np.exp(log_weight).sum() - 1.0) < _ROUNDING)


# Covers


def n_inputs(cover: Cover) -> int | None:
    """How many coordinates x has; None if that is not known, or x is no vector."""
    if isinstance(cover, KDTree):
        return cover._size if len(cover.scale) == 1 else len(cover.scale)
    return len(cover.low) if isinstance(cover, DyadicBoxes | ChoiceBoxes | ShiftedGrids) else None


def check_cover(cover: Any, depths: dict[Hashable, int]) -> None:
    """Raise ValueError for a cover that no model has, or that is not as deep as its contexts."""
    _made_again(cover, _COVERS)
    if isinstance(cover, KDTree):
        _check_kd_tree(cover)
        hold("contexts", all(is_whole(M, 0, len(cover._nodes) - 1) for M in depths))
        hold("depths", all(cover._nodes[M].depth == depth for M, depth in depths.items()))  # type: ignore[call-overload]
        return
    hold("depth", is_whole(cover.depth, 0, _MOST))
    hold("depth", not depths or max(depths.values()) == cover.depth)
    if isinstance(cover, ShiftedGrids):
        hold("shifts", is_whole(cover.shifts, 1, max(len(depths), 1) if depths else _MOST))


def _check_kd_tree(tree: KDTree) -> None:
    """Children come in pairs after their parent, one deeper; rows stand in the leaf that holds them."""
    nodes = tree._nodes
    hold("nodes", isinstance(nodes, list) and len(nodes) >= 1 and all(isinstance(node, _Node) for node in nodes))
    hold("nodes", is_whole(tree.max_depth, 0) and isinstance(tree._frozen, bool) and nodes[0].depth == 0)
    hold("size", tree._size is None or is_whole(tree._size, 1))
    size = n_inputs(tree)
    hold("size", len(tree.scale) in (1, size))
    seen = 0
    for number, node in enumerate(nodes):
        hold("nodes", isinstance(node.children, tuple) and isinstance(node.rows, list) and is_whole(node.depth, 0))
        if node.axis == -1:
            hold("children", node.children == (-1, -1))
            continue
        left, right = node.children
        hold("children", is_whole(left, number + 1, len(nodes) - 2) and is_whole(right) and right == left + 1)
        hold("children", nodes[left].depth == nodes[right].depth == node.depth + 1)
        hold("cuts", size is not None and is_whole(node.axis, 0, size - 1) and is_real(node.cut))
        hold("rows", not node.rows)
        seen += 2
    children = [child for node in nodes if node.axis != -1 for child in node.children]
    hold("children", seen == len(nodes) - 1 and len(set(children)) == seen)
    for number, node in enumerate(nodes):
        for row in node.rows:
            hold("rows", size is not None)
            check_array("rows", row, (size,))  # type: ignore[arg-type]
            hold("rows", tree.contexts(row)[-1][0] == number)


# Local models


def check_local(model: Any) -> None:
    """Raise ValueError for a local model with parameters that its constructor would refuse."""
    _made_again(model, _LOCALS)
    hold("q", is_whole(getattr(model, "q", 1), 1, _MOST))
    hold("numbers", all(is_real(value) for value in vars(model).values() if isinstance(value, float)))
    hold("depth", is_whole(getattr(model, "max_depth", 0), 0))


_COVERS: dict[type, Callable[[Any], Any]] = {
    KDTree: lambda c: KDTree(c.alpha, c.scale, c.max_depth),
    DyadicBoxes: lambda c: DyadicBoxes(c.low, c.high, c.depth),
    ChoiceBoxes: lambda c: ChoiceBoxes(c.low, c.high, c.depth),
    ShiftedGrids: lambda c: ShiftedGrids(c.low, c.high, c.depth, c.shifts),
    SuffixTree: lambda c: SuffixTree(c.depth),
}
_LOCALS: dict[type, Callable[[Any], Any]] = {
    Polynomial: lambda m: Polynomial(m.degree, m.q, m.ridge, m.nu, m.scatter),
    TreeDensity: lambda m: TreeDensity(m.q, m.max_depth, m.a, m.stop, m.loc, m.scale, m.law),
    KernelDensity: lambda m: KernelDensity(m.q, m.loc, m.scale, len(m.log_h)),
    Dirichlet: lambda m: Dirichlet(m.alphabet, m.concentration),
}


def _made_again(part: Any, makers: dict[type, Callable[[Any], Any]]) -> None:
    """Raise ValueError unless the part's own parameters make the same part; what it has learned starts with _."""
    hold("a part", type(part) in makers)
    made = makers[type(part)](part)
    hold("a part", vars(part).keys() == vars(made).keys())
    for name, value in vars(made).items():
        if name.startswith("_"):
            continue
        ours = getattr(part, name)
        same = type(ours) is type(value)
        if isinstance(value, np.ndarray):  # a logarithm may round elsewhere than here
            same = same and ours.dtype == value.dtype and ours.shape == value.shape and np.allclose(ours, value)
        else:
            same = same and ours == value
        hold(name, same)


# What they have learned


def check_posterior(posterior: Any, model: LocalModel, p: int | None) -> None:
    """Raise ValueError unless a context with p inputs could believe this under this model."""
    kind, check = _POSTERIORS[type(model)]
    hold("a posterior", type(posterior) is kind)
    check(posterior, model, p)


def _check_polynomial(posterior: PolynomialPosterior, model: Polynomial, p: int | None) -> None:
    ours = (posterior.degree, posterior.q, posterior.ridge, posterior.nu0)
    hold("a polynomial", ours == (model.degree, model.q, model.ridge, model.nu) and is_whole(posterior.n, 0))
    for Psi in (posterior.Psi0, posterior.Psi):
        check_array("Psi", Psi, (model.q, model.q))
        hold("Psi", np.diagonal(Psi) > 0)
        np.linalg.cholesky(Psi)  # its error is a ValueError
    hold("B", (posterior.B is not None) >= (posterior.n > 0 or posterior.B0 is not None))
    d = _n_features(model.degree, p)
    for B in (posterior.B0, posterior.B):
        if B is not None:
            check_array("B", B, (len(B) if d is None else d, model.q))
            hold("B", np.abs(B) < _LARGEST)
    if posterior.n == 0:
        check_array("Lam", posterior.Lam, (0, 0))
        return
    _check_precision(posterior.Lam, len(posterior.B), model.ridge)  # type: ignore[arg-type]


def _check_precision(Lam: Any, d: int, ridge: float) -> None:
    """Lam = ridge I + F'F: symmetric, with no diagonal below the ridge, and no negative direction but by rounding."""
    check_array("Lam", Lam, (d, d))
    root = np.sqrt(np.diagonal(Lam)) if (np.diagonal(Lam) >= 0.5 * ridge).all() else np.zeros(d)
    hold("Lam", root > 0)
    correlation = Lam / root[:, None] / root
    hold("Lam", np.allclose(correlation, correlation.T, rtol=0.0, atol=_ROUNDING))
    hold("Lam", np.linalg.eigvalsh(correlation).min() > -1e-8)


def _n_features(degree: int, p: int | None) -> int | None:
    if degree == 0:
        return 1
    return None if p is None else 1 + p + (p * (p + 1) // 2 if degree == 2 else 0)


def _check_tree_density(posterior: TreeDensityPosterior, model: TreeDensity, p: int | None) -> None:
    """Every row is counted in one cell of each depth, and every cell that holds one has its evidence."""
    count, split = posterior._count, posterior._log_split
    hold("cells", posterior._model is model and isinstance(count, Counter) and isinstance(split, dict))
    for cell, n in count.items():
        hold("cells", isinstance(cell, tuple) and len(cell) == 2 and is_whole(n, 1))
        depth, turns = cell
        hold("cells", is_whole(depth, 0, model.max_depth) and is_whole(turns, 0) and turns >> depth == 0)
        if depth < model.max_depth:
            hold("cells", count[(depth + 1, 2 * turns)] + count[(depth + 1, 2 * turns + 1)] == n)
        hold("cells", depth == 0 or (depth - 1, turns >> 1) in count)
    hold("cells", split.keys() == {cell for cell in count if cell[0] < model.max_depth})
    hold("evidence", all(is_real(value) for value in split.values()) and is_real(posterior._log_map))


def _check_kernel_density(posterior: KernelDensityPosterior, model: KernelDensity, p: int | None) -> None:
    hold("kernels", posterior._model is model and isinstance(posterior._rows, list))
    hold("evidence", is_real(posterior._log_evidence))
    check_log_weights("bandwidths", posterior.log_weight, len(model.log_h))
    for row in posterior._rows:
        check_array("kernels", row, (model.q,))


def _check_dirichlet(posterior: DirichletPosterior, model: Dirichlet, p: int | None) -> None:
    prior, counts = posterior.prior, posterior.counts
    hold("counts", isinstance(prior, dict) and isinstance(counts, Counter) and prior.keys() == set(model.alphabet))
    hold("prior", all(is_real(value) and value > 0 for value in prior.values()))
    hold("prior", abs(sum(prior.values()) / (model.concentration * len(model.alphabet)) - 1.0) < _ROUNDING)
    hold("counts", counts.keys() <= prior.keys() and all(is_whole(n, 0, 2**63) for n in counts.values()))


_POSTERIORS: dict[type, tuple[type[Posterior], Callable[[Any, Any, int | None], None]]] = {
    Polynomial: (PolynomialPosterior, _check_polynomial),
    TreeDensity: (TreeDensityPosterior, _check_tree_density),
    KernelDensity: (KernelDensityPosterior, _check_kernel_density),
    Dirichlet: (DirichletPosterior, _check_dirichlet),
}
