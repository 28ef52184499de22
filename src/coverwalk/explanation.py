"""The components of one row's distribution as a table in plain words: alike contexts are grouped, one line each."""

from typing import Any, NamedTuple

import numpy as np

from coverwalk.distributions.univariate import UnivariateDistribution

__all__ = ["Explanation", "Reason", "explanation_of"]


class Reason(NamedTuple):
    """A group of contexts that condition on the same features."""

    weight: float  # of all of them together
    n_contexts: int
    mean: float  # of their components
    std: float
    n_rows: float  # rows in such a context, on average by weight
    where: str  # what x has to be, in the units and names of the inputs

    def __str__(self) -> str:
        rows = f" (about {self.n_rows:.0f} rows)" if self.n_rows else ""
        return f"{self.weight:6.1%}  {self.mean:>9.4g} ± {self.std:<8.3g}  {self.where}{rows}"


class Explanation(NamedTuple):
    """Why a distribution is what it is, the heaviest reasons first."""

    mean: float
    low: float  # of the 90 % interval
    high: float
    reasons: list[Reason]

    def __str__(self) -> str:
        head = f"mean {self.mean:.4g}, 90 % interval {self.low:.4g} to {self.high:.4g}, because"
        return "\n".join([head, f"{'weight':>6}  {'prediction':>9}{'':>11}  where", *map(str, self.reasons)])

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(
            f"<tr><td>{r.weight:.1%}</td><td>{r.mean:.4g} ± {r.std:.3g}</td><td>{escape(r.where)}</td>"
            f"<td>{r.n_rows:.0f}</td></tr>"
            for r in self.reasons
        )
        head = "<tr><th>weight</th><th>prediction</th><th>where</th><th>rows</th></tr>"
        return (
            f"<p>mean {self.mean:.4g}, 90 % interval {self.low:.4g} to {self.high:.4g}</p><table>{head}{rows}</table>"
        )


def explanation_of(dist: UnivariateDistribution, top: int = 8) -> Explanation:
    """The explanation of the distribution of one row; at most ``top`` lines, and one for the rest.

    Contexts of different trees never have the same bounds. Those that bound the same features from the same sides are
    one reason; the bounds shown are their averages by weight.
    """
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top!r}")
    groups: dict[Any, list[Any]] = {}
    for component in dist.contexts():
        groups.setdefault(_kind(component.context), []).append(component)
    ordered = sorted(groups.items(), key=lambda item: -sum(c.weight for c in item[1]))
    reasons = [_reason(kind, members) for kind, members in ordered[:top]]
    if rest := [component for _, members in ordered[top:] for component in members]:
        reasons.append(_reason(("rest", f"{len(ordered) - top} further kinds of contexts"), rest))
    low, high = dist.interval(0.9)
    return Explanation(float(dist.mean()), float(low), float(high), reasons)


def _kind(context: Any) -> Any:
    """What makes two contexts alike: the features they bound, and from which sides; or what they are called."""
    if context is None:
        return ("rest", "anything else: the prior for outliers")
    if not hasattr(context, "box"):
        return ("rest", f"context {context}")
    if context.tree < 0:
        return ("rest", "all rows, by kernels" if context.tree == -1 else "all rows, by cells of y")
    sides = []
    for name, side in context.box.items():
        fixed = tuple(side) if isinstance(side, list) else (side[0] > -np.inf, side[1] < np.inf)
        sides.append((name, fixed))
    return tuple(sorted(sides))


def _reason(kind: Any, members: list[Any]) -> Reason:
    weight = np.array([c.weight for c in members])
    share = weight / weight.sum() if weight.sum() > 0 else np.full(len(weight), 1 / len(weight))
    loc, scale = np.array([c.loc for c in members]), np.array([c.scale for c in members])
    mean = float(share @ loc)
    std = float(np.sqrt(share @ (scale**2 + (loc - mean) ** 2)))
    boxed = [c.context for c in members if hasattr(c.context, "box") and c.context.tree >= 0]
    if kind and kind[0] == "rest":
        return Reason(float(weight.sum()), len(members), mean, std, 0.0, kind[1])
    n_rows = float(share @ np.array([context.n_rows for context in boxed]))
    parts = [_words(name, [context.box[name] for context in boxed], share) for name, _ in kind]
    return Reason(float(weight.sum()), len(members), mean, std, n_rows, " and ".join(parts) or "everywhere")


def _words(name: str, sides: list[Any], share: Any) -> str:
    """One feature's condition."""
    if isinstance(sides[0], list):
        shown = ", ".join(sides[0][:4]) + (f" or {len(sides[0]) - 4} more" if len(sides[0]) > 4 else "")
        return f"{name} is {shown}" if len(sides[0]) == 1 else f"{name} is one of {shown}"
    low = share @ np.array([side[0] for side in sides]) if sides[0][0] > -np.inf else None
    high = share @ np.array([side[1] for side in sides]) if sides[0][1] < np.inf else None
    if low is None:
        return f"{name} at most {high:.3g}"
    return f"{name} above {low:.3g}" if high is None else f"{name} between {low:.3g} and {high:.3g}"
