"""A sample of the rows that does not see their order nor how they were divided, and adds up.

Every row has a pseudo-random code of what it holds; the distinct rows of the lowest codes are kept, each with how
often it came. A row of the final sample is among the lowest of every part it occurs in, so its count is exact.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Floats, Ints, UInts
from coverwalk.preparation.row_codes import row_codes
from coverwalk.preparation.weights import copies


def label_numbers(y: NDArray[Any]) -> Floats:
    """Labels as numbers to be hashed: themselves, or for text the first bits of a digest.

    >>> label_numbers(np.array(["a", "b", "a"])).tolist() == label_numbers(np.array(["a", "b", "a"], object)).tolist()
    True
    """
    if y.dtype.kind in "biuf":
        return y.astype(np.float64)
    names, place = np.unique(y.astype(str), return_inverse=True)
    digests = [hashlib.blake2b(name.encode(), digest_size=6).digest() for name in names.tolist()]
    return np.array([float(int.from_bytes(digest, "little")) for digest in digests])[place.reshape(y.shape)]


@dataclass
class RowSample:
    """At most ``most`` distinct rows X (k, p) and Y (k, q), in the order of their codes (k,).

    Examples
    --------
    >>> X = np.arange(1000.0)[:, None]
    >>> whole, part, other = RowSample(100), RowSample(100), RowSample(100)
    >>> whole.accumulate(X, X)
    >>> part.accumulate(X[700:], X[700:])
    >>> other.accumulate(X[:700], X[:700])
    >>> part.merge(other)
    >>> bool(np.array_equal(whole.X, part.X)), whole.n_rows
    (True, 1000)
    """

    most: int
    n_rows: int = 0  # that came
    X: Floats = field(default_factory=lambda: np.empty((0, 0)))
    Y: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0)))
    codes: UInts = field(default_factory=lambda: np.empty(0, np.uint64))
    count: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # of each row
    complete: bool = True  # no row has been left out

    def accumulate(self, X: Floats, Y: NDArray[Any]) -> None:
        """Draw from rows X (n, p), Y (n, q)."""
        numbers = label_numbers(Y)
        self.n_rows += len(X)
        self._add(X, Y, row_codes(np.hstack([X, numbers[:, :-1]]), numbers[:, -1].copy()), np.ones(len(X), np.int64))

    def merge(self, other: "RowSample") -> None:
        """Draw from all rows that another sample has drawn from."""
        if other.most != self.most:
            raise ValueError(f"samples of {self.most} and of {other.most} rows cannot be merged: draw both alike")
        self.n_rows += other.n_rows
        self.complete &= other.complete
        self._add(other.X, other.Y, other.codes, other.count)

    @property
    def bound(self) -> int:
        """The largest code in the sample."""
        return int(self.codes[-1]) if len(self.codes) else 0

    def lowest(self, most: int) -> "RowSample":
        """The sample that would have been drawn with room for this many distinct rows, or fewer."""
        part = slice(0, most)
        kept = (self.X[part], self.Y[part], self.codes[part], self.count[part])
        return RowSample(most, self.n_rows, *kept, self.complete and len(self.codes) <= most)

    def times(self) -> Floats:
        """How often each row stands for itself, (k,), so that all together are at most about ``most``."""
        times = self.count.astype(np.float64)
        share = min(self.most / max(self.n_rows, 1), 1.0)
        if self.complete:
            return times * share
        # a row that is a great part of all rows would drown the sample of the others
        times = np.where(times * share > 1.0, times * share, times)
        return np.asarray(times * min(self.most / times.sum(), 1.0))

    def rows(self) -> tuple[Floats, NDArray[Any]]:
        """The sample as rows: all that came, or at most about ``most`` of them, each as often as its share of all."""
        taken = copies(self.times())
        return np.repeat(self.X, taken, axis=0), np.repeat(self.Y, taken, axis=0)

    def _add(self, X: Floats, Y: NDArray[Any], codes: UInts, count: Ints) -> None:
        if len(self.codes) >= self.most:
            low = codes <= self.codes[-1]
            self.complete &= bool(low.all())
            X, Y, codes, count = X[low], Y[low], codes[low], count[low]
        if not len(codes):
            return
        if len(self.codes):
            X, Y = np.concatenate([self.X, X]), np.concatenate([self.Y, Y])
            codes, count = np.concatenate([self.codes, codes]), np.concatenate([self.count, count])
        order = np.argsort(codes, kind="stable")
        first = np.flatnonzero(np.diff(codes[order], prepend=codes[order[0]] ^ np.uint64(1)))
        self.complete &= len(first) <= self.most
        total = np.add.reduceat(count[order], first)[: self.most]
        kept = order[first[: self.most]]
        self.X, self.Y, self.codes, self.count = X[kept], Y[kept], codes[kept], total
