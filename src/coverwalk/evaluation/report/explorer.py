"""What the page needs to predict by itself: all trees as one set of flat arrays, without contexts of no weight."""

import json
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Bools, Ints
from coverwalk._kernels.forest.polynomial import n_features
from coverwalk.distributions.shapes import Shapes
from coverwalk.evaluation.report.packing import pack
from coverwalk.forest.forest import Forest
from coverwalk.forest.members import FittedTree
from coverwalk.forest.tree import Tree
from coverwalk.preparation.bounds import Bounds
from coverwalk.preparation.rounding import Rounding

_SLOTS = ("low", "high", "centre", "mean", "degree", "n_rows")
_PLACES = {
    "left": "feature",
    "first": "kind",
    "last": "kind",
    "slot": "mean",
}  # and what they are places in
_PAGE_NAMES = {"centre": "centres", "degree": "slot_degree"}  # the page has numbers of the plain names


class Exported(NamedTuple):
    """The forest for the page, and how many of its trees are in it."""

    payload: dict[str, Any]
    n_trees: int


def export(forest: Forest, budget: int = 1_800_000) -> Exported:
    """As many trees as fit into this many characters, at least one."""
    arrays, n_trees = _join(forest, len(forest.fitted)), len(forest.fitted)
    while (size := len(json.dumps(arrays))) > budget and n_trees > 1:
        n_trees = max(1, min(n_trees - 1, n_trees * budget // size))
        arrays = _join(forest, n_trees)
    return Exported(
        {
            "arrays": arrays,
            "n_inputs": len(forest.names),
            "degree": _degree(forest),
            "n_features": int(n_features(_degree(forest), len(forest.names))),
            "outlier": forest.table.outliers(forest.n_rows)[0],
            "centre": float(forest.output.centre[0]),
            "unit": float(forest.output.scale[0]),
            "scale_factor": forest.settings.scale_factor,
            "kernel": forest.settings.kernel if forest.global_kernel else 0.0,
            "cell_weight": forest.settings.y_cells.weight if forest.settings.y_cells else 0.0,
            "cell_exponent": forest.settings.y_cells.exponent if forest.settings.y_cells else 1.0,
            "n_rows_in_all": len(forest.y),
            "rounding": _plain(forest.settings.rounding),
        },
        n_trees,
    )


def _plain(limits: Rounding | Bounds | None) -> dict[str, Any] | None:
    """How y is rounded and bounded, with None in place of an open end."""
    if limits is None:
        return None
    told = {each.name: getattr(limits, each.name) for each in fields(limits)}
    told = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in told.items()}
    told |= {name: None for name in ("low", "high") if np.isinf(told[name])}
    return told | ({"bounds": _plain(limits.bounds)} if isinstance(limits, Rounding) else {})


def _degree(forest: Forest) -> int:
    """The largest of all trees: the page takes coefficients of one length; short ones are followed by zeros."""
    return max(forest.grid_of(part.degree).degree for part in forest.settings.part_of_trees())


def _join(forest: Forest, n_trees: int) -> dict[str, Any]:
    """The first trees in one set of arrays; places within a tree become places within all."""
    table, width = forest.table, int(n_features(_degree(forest), len(forest.names)))
    parts = [_prune(*tree, width) for tree in zip(forest.trees[:n_trees], forest.fitted, table.first_shape)]
    for name, owner in _PLACES.items():
        starts = np.cumsum([0, *(len(part[owner]) for part in parts)])
        for part, start in zip(parts, starts):
            part[name] = np.where(part[name] >= 0, part[name] + start, -1)
    joined = {_PAGE_NAMES.get(name, name): np.concatenate([part[name] for part in parts]) for name in parts[0]}
    joined["roots"] = np.cumsum([0, *(len(part["feature"]) for part in parts[:-1])])
    outliers = np.zeros(1, np.int64)
    used, joined["shape"] = np.unique(np.concatenate([outliers, joined["shape"]]), return_inverse=True)
    joined["shape"] = joined["shape"][1:]
    if forest.global_kernel is not None:
        joined |= {f"node_{name}": getattr(forest.global_kernel, name) for name in ("low", "step", "size")}
        joined["node_first"] = np.array([len(used)])
        used = np.concatenate([used, table.first_shape[-1] + np.arange(len(forest.global_kernel.shapes))])
    if forest.settings.y_cells is not None:
        joined |= {f"cell_{name}": ends for name, ends in forest.settings.y_cells.cells._asdict().items()}
        joined["cell_shape"] = np.array([len(used)])
        used = np.append(used, len(table.shapes) - 1)
    joined |= {"input_centre": forest.inputs.centre, "input_scale": forest.inputs.scale}
    joined |= _shapes(table.shapes, used) | _trend(forest)
    return {name: pack(array) for name, array in joined.items()}


def _trend(forest: Forest) -> dict[str, NDArray[Any]]:
    """The smooth trend, and which trees start from it."""
    parts = forest.settings.part_of_trees()
    arrays: dict[str, NDArray[Any]] = {"smooth": np.array([int(part.smooth) for part in parts])}
    trend = forest.trend
    for name in ("turns", "phase", "coefficients", "low", "high"):
        arrays[f"trend_{name}"] = getattr(trend, name) if trend else np.zeros(0)
    for name in ("column", "knots", "heights"):
        arrays[f"curve_{name}"] = getattr(trend.curves, name) if trend else np.zeros(0)
    return arrays


def _shapes(shapes: Shapes, used: Ints) -> dict[str, NDArray[Any]]:
    """The shapes that are used, with their atoms."""
    table, sizes = shapes.table, np.diff(shapes.start)[used]
    atoms = np.concatenate([np.arange(shapes.start[s], shapes.start[s + 1]) for s in used])
    return {
        "shape_kind": table.kind[used],
        "shape_df": np.nan_to_num(table.df[used]),
        "shape_log_norm": np.nan_to_num(table.log_norm[used]),
        "shape_start": np.concatenate([[0], np.cumsum(sizes)]),
        "atom_weight": table.weight[atoms],
        "atom_center": table.center[atoms],
        "atom_width": table.width[atoms],
    }


def _prune(tree: Tree, fitted: FittedTree, first_shape: int, width: int) -> dict[str, NDArray[Any]]:
    """The contexts with components, or with one below them that has any, and their records, renumbered from 0.

    Coefficients are followed by zeros up to ``width``; numbers of shapes start at the first of this tree.
    """
    records = fitted.records
    sizes = np.diff(records.first)
    kept, left, depth = _nonzero(tree.left, sizes > 0)
    of_records = np.flatnonzero(np.repeat(np.isin(np.arange(len(sizes)), kept), sizes))
    ends = np.cumsum(sizes[kept])
    slots = records.slot[kept]
    used = np.unique(slots[slots >= 0])
    part = {"feature": tree.feature[kept], "split": tree.split[kept], "left": left, "depth": depth}
    part |= {"first": ends - sizes[kept], "last": ends}
    part["slot"] = np.where(slots >= 0, np.searchsorted(used, slots), -1)
    part |= {name: getattr(records, name)[of_records] for name in ("kind", "s2")}
    part["weight"] = records.weight[0, of_records]
    part["shape"] = first_shape + fitted.shape[of_records].astype(np.int64)
    part |= {name: getattr(records, name)[used] for name in _SLOTS}
    part["centre"] = np.pad(part["centre"], ((0, 0), (0, width - part["centre"].shape[1])))
    return part


def _nonzero(left: Ints, nonzero: Bools) -> tuple[Ints, Ints, Ints]:
    """Contexts worth keeping, in their order; where their children now are, -1 for none; and their depths."""
    below, depth = nonzero.copy(), np.zeros(len(left), np.int64)
    inner = left >= 0
    for k in np.flatnonzero(inner)[::-1].tolist():
        inner[k] = below[left[k] : left[k] + 2].any()
        below[k] |= inner[k]
    keep = np.zeros(len(left), bool)
    keep[0] = True
    for k in np.flatnonzero(inner).tolist():  # both children or none
        children = slice(left[k], left[k] + 2)
        keep[children], depth[children] = True, depth[k] + 1
    place, kept = np.cumsum(keep) - 1, np.flatnonzero(keep)
    return kept, np.where(inner[kept], place[left[kept]], -1), depth[kept]
