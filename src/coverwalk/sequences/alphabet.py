"""Symbols and their codes 0, 1, 2, ...: bytes, integers, or any hashable things; fixed, or growing as they come."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Bytes, Ints32
from coverwalk.files.schema import Flag, List, Plain, Schema

BYTES = (bytes, bytearray, memoryview)


class Alphabet:
    """A table of symbols; the code of a symbol is its place.

    Parameters
    ----------
    symbols : iterable of hashables
        The symbols known from the start, in the order of their codes.
    grows : bool
        Whether further symbols may come.

    Examples
    --------
    >>> letters = Alphabet("ACGT", grows=False)
    >>> letters.encode("GATTACA")[0]
    array([2, 0, 3, 3, 0, 1, 0], dtype=int32)
    >>> letters.decode([2, 0, 3])
    ['G', 'A', 'T']
    """

    _schema = Schema(symbols=List(Plain()), grows=Flag(), check=lambda state, scope: scope.update(A=len(state.symbols)))

    def __init__(self, symbols: Iterable[Hashable], *, grows: bool) -> None:
        self.symbols: list[Hashable] = list(symbols)
        self.codes = {symbol: code for code, symbol in enumerate(self.symbols)}
        self.grows = grows
        if len(self.codes) < len(self.symbols):
            twice = next(s for code, s in enumerate(self.symbols) if self.codes[s] != code)
            raise ValueError(f"each symbol of the alphabet may be named once, but {twice!r} comes again: remove it")
        if not self.symbols and not grows:
            raise ValueError("the alphabet is empty: name at least one symbol, or leave it None to let it grow")
        self._counts_from_zero = self.symbols == list(range(len(self.symbols))) and not grows

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, sequence: Any) -> tuple[Ints32 | Bytes, list[Hashable]]:
        """The codes of a sequence, and the symbols in it that are new, in order; nothing is added yet.

        Raises ``ValueError`` for a symbol that a fixed alphabet does not have.
        """
        if self._counts_from_zero and isinstance(sequence, (*BYTES, np.ndarray)):
            return self._encode_numbers(sequence), []
        try:
            symbols = _symbols(sequence)
            distinct = dict.fromkeys(symbols)
        except TypeError as mistake:
            kind = type(sequence).__name__
            raise ValueError(f"expected a sequence of hashable symbols, got {kind}: {mistake}") from None
        fresh = [symbol for symbol in distinct if symbol not in self.codes]
        if any(symbol != symbol for symbol in fresh if isinstance(symbol, float)):
            raise ValueError("the sequence holds NaN, which cannot be a symbol: remove or replace it")
        if fresh and not self.grows:
            raise ValueError(_foreign(fresh[0], symbols.index(fresh[0]), self.symbols))
        added = {symbol: code for code, symbol in enumerate(fresh, len(self))}
        codes = {symbol: self.codes.get(symbol, added.get(symbol)) for symbol in distinct}
        return np.fromiter(map(codes.__getitem__, symbols), np.int32, len(symbols)), fresh

    def add(self, symbols: Sequence[Hashable]) -> None:
        """Take in the new symbols that ``encode`` found."""
        for symbol in symbols:
            self.codes[symbol] = len(self.symbols)
            self.symbols.append(symbol)

    def decode(self, codes: Iterable[int]) -> list[Hashable]:
        """The symbols of these codes."""
        return [self.symbols[code] for code in codes]

    def are_bytes(self) -> bool:
        """Whether all symbols are numbers from 0 to 255."""
        return all(isinstance(symbol, int) and 0 <= symbol < 256 for symbol in self.symbols)

    def __getstate__(self) -> dict[str, Any]:
        return {"symbols": self.symbols, "grows": self.grows}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def _encode_numbers(self, sequence: Any) -> Ints32 | Bytes:
        """Codes that are the symbols themselves: only their range is checked. Bytes stay bytes."""
        numbers = np.frombuffer(sequence, np.uint8) if isinstance(sequence, BYTES) else _vector(sequence)
        if not np.issubdtype(numbers.dtype, np.integer):
            raise ValueError(
                f"expected an array of integer symbols, got {numbers.dtype}: pass integers, or a list of symbols"
            )
        wrong = np.flatnonzero((numbers < 0) | (numbers >= len(self.symbols)))
        if len(wrong):
            raise ValueError(_foreign(int(numbers[wrong[0]]), int(wrong[0]), self.symbols))
        return numbers.astype(np.int32) if numbers.dtype != np.uint8 else numbers


def _foreign(symbol: Hashable, place: int, symbols: list[Hashable]) -> str:
    shown = ", ".join(map(repr, symbols[:6])) + (", ..." if len(symbols) > 6 else "")
    return (
        f"symbol {symbol!r} at place {place} is not among the {len(symbols)} of the alphabet ({shown}): "
        "name it in `alphabet`, or leave `alphabet` None to let it grow"
    )


def _vector(array: NDArray[Any]) -> NDArray[Any]:
    if array.ndim != 1:
        raise ValueError(f"a sequence has one dimension, but this array has shape {array.shape}: pass one document")
    return array


def _symbols(sequence: Any) -> list[Hashable]:
    """The symbols of a sequence, those of an array as Python's own."""
    if not isinstance(sequence, np.ndarray) or sequence.dtype == object:
        return list(bytes(sequence) if isinstance(sequence, BYTES) else sequence)
    array = _vector(sequence)
    if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
        raise ValueError("the sequence holds NaN or infinity, which cannot be symbols: remove or replace them")
    return array.tolist()  # type: ignore[no-any-return]
