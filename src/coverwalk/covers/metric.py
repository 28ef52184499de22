"""The cover tree: balls around rows seen, for any objects with a metric; a lattice, since balls overlap."""

from collections.abc import Callable, Sequence
from typing import Any

from coverwalk.base import Context, Cover

__all__ = ["CoverTree"]

_WARM_UP = 16  # rows that tell how wide the space is


class _Ball:
    """A ball of one level: its centre, how many rows it has held, and the balls of the next level born inside it."""

    def __init__(self, number: int, centre: Any) -> None:
        self.number, self.centre = number, centre
        self.count = 0
        self.children: list[_Ball] = []


class CoverTree(Cover):
    """Balls with radius r, r/2, r/4, ... around rows. Level 0 is the whole space.

    This is a cover tree (Beygelzimer, Kakade and Langford, 2006): the centres of a level are further apart than its
    radius, and each lies in a ball of the level above. If no ball of level k + 1 contains a row, and a ball of level k
    around it has more than alpha^k rows, the row becomes the centre of a new ball.

    Parameters
    ----------
    metric : callable
        ``metric(a, b)``: a distance between any two objects; symmetric, with the triangle inequality.
    radius : float, optional
        Radius of the balls of level 1. By default, half of the largest distance from the first row to the next
        sixteen rows.
    alpha : float
        Growth with depth of the number of rows that a ball needs before it is refined.
    max_depth : int
        Number of levels below the whole space.

    Examples
    --------
    >>> tree = CoverTree(lambda a, b: abs(a - b), radius=4, alpha=1.01)
    >>> for x in (0, 1, 2, 9, 10, 3): _ = tree.grow(x)
    >>> tree.contexts(5)
    [[0], [1, 2], [3]]
    """

    def __init__(
        self, metric: Callable[[Any, Any], float], radius: float | None = None, alpha: float = 2.0, max_depth: int = 12
    ) -> None:
        if radius is not None and not radius > 0:
            raise ValueError(f"radius must be positive, got {radius!r}")
        if not alpha > 1:
            raise ValueError(f"alpha must be more than 1, got {alpha!r}")
        self.metric, self.radius, self.alpha, self.max_depth = metric, radius, float(alpha), max_depth
        self._root: _Ball | None = None
        self._n_balls = 1
        self._widest = 0.0

    def check(self, x: Any) -> Any:
        """Whatever the metric takes; a distance that is not a finite number of at least 0 is refused."""
        distance = self.metric(x, x if self._root is None else self._root.centre)
        if not 0 <= distance < float("inf"):
            raise ValueError(f"metric must give a finite distance of at least 0, got {distance!r} for x = {x!r}")
        return x

    def contexts(self, x: Any) -> Sequence[Sequence[Context]]:
        """All balls that hold x, level by level, until a level has none."""
        return [[ball.number for ball in level] for level, _ in self._descend(x)] or [[0]]

    def _descend(self, x: Any) -> list[tuple[list[_Ball], list[_Ball]]]:
        """For each level: the balls that hold x, and those near enough to have children that might."""
        if self._root is None:
            return []
        levels = [([self._root], [self._root])]
        radius = self.radius
        while radius is not None:
            candidates = {ball.number: ball for near in levels[-1][1] for ball in near.children}
            distances = [(self.metric(x, ball.centre), ball) for ball in candidates.values()]
            holding = [ball for distance, ball in distances if distance <= radius]
            if not holding:
                break
            levels.append((holding, [ball for distance, ball in distances if distance <= 2 * radius]))
            radius /= 2
        return levels

    def grow(self, x: Any) -> Sequence[Context]:
        """Count x in its balls, and found a ball around it below the last level if that is crowded enough.

        A ball is not split: the new one lies beside its siblings, and rows seen earlier stay where they were.
        """
        if self._root is None:
            self._root = _Ball(0, x)
        if self.radius is None:
            self._widest = max(self._widest, self.metric(x, self._root.centre))
            if self._root.count >= _WARM_UP and self._widest > 0:
                self.radius = self._widest / 2
        levels = self._descend(x)
        for holding, _ in levels:
            for ball in holding:
                ball.count += 1
        depth = len(levels) - 1
        parent = max(levels[-1][0], key=lambda ball: ball.count)
        if self.radius is not None and depth < self.max_depth and parent.count > self.alpha**depth:
            parent.children.append(_Ball(self._n_balls, x))
            self._n_balls += 1
        return ()
