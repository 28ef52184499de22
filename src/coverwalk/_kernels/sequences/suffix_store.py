"""The arrays of a suffix tree: what each holds, what a file may hold, an empty tree. See `suffix_tree`."""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints, Ints32
from coverwalk.files.schema import Array, Limits, Scope, require, stored

# columns of node_value
C, T, N, STOP, FULL = range(5)  # fractional counts, tables, full counts, log evidence for stopping, for full counts
# columns of node_link: first entry, distinct symbols, newest symbol, one order less, by what
HEAD, KINDS, LAST, PARENT, LABEL = range(5)
# columns of entry_value: fractional count, tables, full count
SYMBOL, NEXT, SUCCESSOR, OWNER = range(4)  # columns of entry_link
NODES, ENTRIES, HISTORY, PATH, ALPHABET, BEGIN, START = range(7)  # places of size
MEMORY, MODE, SHARE, ALPHA, GROWING, PRIOR, WINDOW, RATE = range(8)  # places of settings
COARSEN_MIXED, COARSEN_DIRICHLET, REFINE = range(3)  # modes
READ, LEARN, OPEN = range(3)  # how a path moves on: see `suffix_tree.advance`
# columns of a path's levels, which `suffix_walk.weigh` writes
G_PY, D, G_FULL, REPEAT, BACK, FLAT, W, R, ROW, COLUMN, SEEN, LEVEL_COLUMNS = range(12)
# the tied prior log-odds: stopping, discount, full counts against tables, repeating the newest symbol
P_STOP, P_DISCOUNT, P_FULL, P_REPEAT = np.arange(4)  # not literals: those would compile each use anew
NEWEST_ROWS, KINDS_COLUMNS = 256, 8  # of tied

# the arrays that grow, and where their size is
SIZE_OF = {"node_value": NODES, "node_link": NODES, "entry_value": ENTRIES, "entry_link": ENTRIES, "history": HISTORY}

BORDER = -1  # between two documents in the history; the label of a context that begins with its document
MOST_SYMBOLS = 2**31 - 8  # places in the history are 32-bit links
FRESH = -(2**40)  # on a path: a context never met before

_NODE_LINKS = {
    LAST: Limits(index="A", none=True),
    PARENT: Limits(index="nodes", none=True),
    LABEL: Limits(index="A", none=True),
}
_ENTRY_LINKS = {
    SYMBOL: Limits(index="A"),
    SUCCESSOR: Limits(low="-2 - past", below="nodes"),
    OWNER: Limits(index="nodes"),
}
_SETTINGS = {
    MEMORY: Limits(low=0, high=2**62),  # bytes
    MODE: Limits(low=COARSEN_MIXED, high=REFINE, integral=True),
    SHARE: Limits(low=0, high=0.49),
    ALPHA: Limits(low=1e-100, high=1e100),
    GROWING: Limits(low="int(grows)", high="int(grows)"),
    PRIOR: Limits(low=0, below=1),
    WINDOW: Limits(low=100, high=2**31, integral=True),  # symbols that are remembered, at most
    **{place: Limits(low=0, high=1) for place in range(RATE, RATE + 4)},
}


@stored(read_first=("entry_value", "history"), check=lambda state, scope: _check_store(state, scope))
class SuffixStore(NamedTuple):
    """The whole state of a sequence model as flat arrays; all are owned and changed by the kernels.

    node_value (nodes, 5)   C, T, N, log evidence for stopping here, log evidence for full counts
    node_link (nodes, 5)    head entry, number of distinct symbols, newest symbol, parent context, label
    entry_value (entries, 3)  c, t, n of one symbol after one context
    entry_link (entries, 4) symbol, next entry of the node, successor, node
    table (2^k,)            hash table of entries by (node, symbol), -1 where free; at most half full
    history (symbols,)      everything learnt, documents separated by -1
    path (depth + 2,)       the contexts of the next symbol by order: a node, a tail -1 - place, or FRESH; one to spare
    path_entry (depth + 2,) the entry whose successor each context on the path is
    size (7,)               nodes, entries, history, length of the path, symbols known, place where the document
                            begins, length of the path there
    tied (4, 4, rows, 8)    prior log-odds that contexts of one kind share: see suffix_walk
    settings (11,)          the places above; RATE and on: how fast each of the tied log-odds is learned
    """

    node_value: Annotated[Floats, Array(float, "nodes", 5)]
    node_link: Annotated[Ints32, Array(np.int32, "nodes", 5, columns=_NODE_LINKS)]
    entry_value: Annotated[Floats, Array(float, "entries", 3, low=0, high=10**15)]
    entry_link: Annotated[Ints32, Array(np.int32, "entries", 4, columns=_ENTRY_LINKS)]
    table: Annotated[Ints32, Array(np.int32, 0)]  # as the lists of entries, it is made again: `suffix_tree.linked`
    history: Annotated[Ints32, Array(np.int32, "past", low=BORDER, below="A")]
    path: Annotated[Ints, Array(np.int64, "length")]
    path_entry: Annotated[Ints, Array(np.int64, "length", low=-1)]
    size: Annotated[Ints, Array(np.int64, 7, low=0, high=2**31)]
    tied: Annotated[Floats, Array(float, 4, 4, NEWEST_ROWS, KINDS_COLUMNS)]
    settings: Annotated[Floats, Array(float, 11, columns=_SETTINGS)]


def new_tree(settings: Floats, tied: Floats, alphabet: int, depth: int) -> SuffixStore:
    """An empty tree: the empty context, the context "a document begins here", and a little room."""
    capacity = 256 + 4 * depth
    tree = SuffixStore(
        node_value=np.zeros((capacity, 5)),
        node_link=np.zeros((capacity, 5), np.int32),
        entry_value=np.zeros((capacity, 3)),
        entry_link=np.zeros((capacity, 4), np.int32),
        table=np.full(4096, -1, np.int32),
        history=np.zeros(capacity, np.int32),
        path=np.zeros(depth + 2, np.int64),
        path_entry=np.full(depth + 2, -1, np.int64),
        size=np.zeros(7, np.int64),
        tied=tied,
        settings=settings,
    )
    tree.size[ALPHABET] = alphabet
    tree.node_link[:2] = [[-1, 0, -1, -1, BORDER], [-1, 0, -1, 0, BORDER]]
    tree.size[NODES] = 2
    return tree


def trimmed(tree: SuffixStore) -> SuffixStore:
    """The same tree in arrays without spare room and without its table, as they are written to a file."""
    used = {name: getattr(tree, name)[: tree.size[place]].copy() for name, place in SIZE_OF.items()}
    return tree._replace(table=np.empty(0, np.int32), **used)


def _check_store(state: Any, scope: Scope) -> None:
    """Sizes are those of the arrays; no context has a symbol twice; its counts are the sums of those of its symbols."""
    nodes, entries, past = scope["nodes"], scope["entries"], scope["past"]
    size = state.size.tolist()
    require("sizes", [size[k] for k in (NODES, ENTRIES, HISTORY, ALPHABET)] == [nodes, entries, past, scope["A"]])
    require("sizes", nodes >= 2 and size[BEGIN] <= past and 1 <= size[START] <= 2 and 1 <= size[PATH] < scope["length"])
    parent = state.node_link[:, PARENT]
    require("parent", (parent[1:] >= 0).all() and (parent < np.arange(nodes)).all())
    path = state.path[: size[PATH]]
    require("path", (path == FRESH) | ((path >= -past) & (path < nodes)))
    require("path", path[0] == 0 and (state.path_entry < entries).all())
    owner = state.entry_link[:, OWNER]
    names = np.unique(state.entry_link[:, [OWNER, SYMBOL]], axis=0)
    require("entries", len(names) == entries)
    require("counts", state.entry_value[:, T] <= state.entry_value[:, C])
    for column in (C, T, N):
        total = np.bincount(owner, weights=state.entry_value[:, column], minlength=nodes)
        require("counts", np.isclose(state.node_value[:, column], total, rtol=1e-6, atol=0.0))
