"""The store of a sequence model: which contexts were seen, what followed them, and the way from one to the next.

A *context* is a node; context 0 is the empty one. An *entry* is a symbol that followed a context ``u``, with its counts
and its *successor*: the context ``us`` that is met next if ``s`` follows ``u``. So the contexts of the next moment,
of every order, are found by reading the successors of the entries of this moment: one look-up a level gives
both the counts of the symbol and the path to come.

A context seen once is not stored. Its successor link holds the place in the history of the one symbol that followed
it (a *tail*), and that says all there is to say about it, and about all longer contexts at that place. It becomes a
node when it is met for the second time. A text of n symbols has about n to 2n nodes, whatever the depth.
"""

import numpy as np

from coverwalk._arrays import Ints, Ints32
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.sequences import suffix_store as at
from coverwalk._kernels.sequences.suffix_store import BORDER, FRESH, MOST_SYMBOLS, SuffixStore


@kernel
def _slot(table: Ints32, node: int, symbol: int) -> int:
    """Where the hash table begins to look for (node, symbol): Fibonacci hashing."""
    mixed = (np.uint64(node) << np.uint64(21)) + np.uint64(symbol) + np.uint64(1)
    mixed = mixed * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    return int(np.int64(mixed & np.uint64(len(table) - 1)))


@kernel
def find_entries(tree: SuffixStore, path: Ints, length: int, symbol: int, entries: Ints) -> None:
    """For each context of a path the entry of ``symbol``, or -1; written to ``entries``."""
    # Taking an array out of the tuple counts a reference: once a call, not once a level.
    node_link, entry_link, table = tree.node_link, tree.entry_link, tree.table
    mask = len(table) - 1
    for order in range(length):
        entries[order] = -1
        node = path[order]
        if node < 0:
            continue
        head = node_link[node, at.HEAD]
        if head < 0:
            continue
        if entry_link[head, at.SYMBOL] == symbol:  # most contexts are followed by one symbol only: no hashing
            entries[order] = head
        elif node_link[node, at.KINDS] > 1:
            slot = _slot(table, node, symbol)
            while table[slot] >= 0:
                entry = table[slot]
                if entry_link[entry, at.OWNER] == node and entry_link[entry, at.SYMBOL] == symbol:
                    entries[order] = entry
                    break
                slot = (slot + 1) & mask


@kernel
def _link(tree: SuffixStore, entry: int) -> None:
    """Put an entry into the list of its context, and into the hash table."""
    node_link, entry_link, table = tree.node_link, tree.entry_link, tree.table
    node = np.int64(entry_link[entry, at.OWNER])
    head = node_link[node, at.HEAD]
    entry_link[entry, at.NEXT] = -1
    if head < 0:
        node_link[node, at.HEAD] = entry
    else:  # the head keeps its place: it is the one that is found without hashing
        entry_link[entry, at.NEXT] = entry_link[head, at.NEXT]
        entry_link[head, at.NEXT] = entry
    node_link[node, at.KINDS] += 1
    mask = len(table) - 1
    slot = _slot(table, node, np.int64(entry_link[entry, at.SYMBOL]))
    while table[slot] >= 0:
        slot = (slot + 1) & mask
    table[slot] = entry


@kernel
def relink(tree: SuffixStore) -> None:
    """Make the lists of all contexts again, and fill an empty hash table."""
    for node in range(tree.size[at.NODES]):
        tree.node_link[node, at.HEAD] = -1
        tree.node_link[node, at.KINDS] = 0
    for entry in range(tree.size[at.ENTRIES]):
        _link(tree, entry)


@kernel
def add_entry(tree: SuffixStore, node: int, symbol: int, successor: int) -> int:
    """A first entry for ``symbol`` after context ``node``, without counts: arrays are zero beyond what is used."""
    entry = int(tree.size[at.ENTRIES])
    tree.size[at.ENTRIES] = entry + 1
    tree.entry_link[entry, at.SYMBOL] = symbol
    tree.entry_link[entry, at.SUCCESSOR] = successor
    tree.entry_link[entry, at.OWNER] = node
    _link(tree, entry)
    return entry


@kernel
def has_capacity(tree: SuffixStore) -> bool:
    """Whether one more symbol fits whatever it is: the caller grows the arrays when it might not."""
    length, entries = len(tree.path), tree.size[at.ENTRIES]
    return bool(
        tree.size[at.NODES] + length <= len(tree.node_value)
        and entries + 2 * length <= len(tree.entry_value)
        and 2 * (entries + 2 * length) <= len(tree.table)
        and tree.size[at.HISTORY] + 2 <= len(tree.history)
    )


@kernel
def materialise(tree: SuffixStore) -> None:
    """Make nodes of the tails and fresh contexts on the path, which is about to learn."""
    path = tree.path
    for order in range(1, tree.size[at.PATH]):
        if path[order] < 0:
            path[order] = _node_of(tree, order)
            if tree.path_entry[order] >= 0:
                tree.entry_link[tree.path_entry[order], at.SUCCESSOR] = path[order]


@kernel
def _node_of(tree: SuffixStore, order: int) -> int:
    """A new node for the context of this order on the path."""
    code, node = int(tree.path[order]), int(tree.size[at.NODES])
    tree.size[at.NODES] = node + 1
    tree.node_link[node, at.HEAD] = tree.node_link[node, at.LAST] = -1
    tree.node_link[node, at.PARENT] = tree.path[order - 1]
    place = tree.size[at.HISTORY] - order
    tree.node_link[node, at.LABEL] = tree.history[place] if place >= tree.size[at.BEGIN] else BORDER
    if code != FRESH:  # seen once: what followed it is in the history
        seen = -1 - code
        followed = np.int64(tree.history[seen])
        entry = add_entry(tree, node, followed, -1 - (seen + 1))
        for column in range(3):
            tree.entry_value[entry, column] = 1.0
            tree.node_value[node, column] = 1.0
        tree.node_link[node, at.LAST] = followed
    return node


@kernel
def _point_to_now(entry_link: Ints32, entries: Ints, first: int, length: int, now: int) -> None:
    """Contexts from order ``first`` on were never followed by a symbol: now they are met for the first time.

    If that holds of one then of all longer ones. Their links may still point to the end of a document.
    """
    for order in range(first, length):
        if entries[order - 1] >= 0:
            entry_link[entries[order - 1], at.SUCCESSOR] = -1 - now


@kernel
def advance(tree: SuffixStore, path: Ints, path_entry: Ints, entries: Ints, length: int, symbol: int, keep: int) -> int:
    """Move a path on by one symbol, in place; the length of the new path.

    path, path_entry (depth + 2,)   the path to move: the tree's own, or a copy that only reads
    entries (depth + 2,)            the entries of the symbol on it, from ``find_entries``
    keep                            READ: the tree is only read; LEARN: it has learnt the symbol; OPEN: as LEARN, and
                                    contexts never met are on the path too
    """
    entry_link, history = tree.entry_link, tree.history
    eager = keep == at.OPEN or tree.settings[at.MODE] == at.COARSEN_DIRICHLET  # a fresh context has a say there
    now = tree.size[at.HISTORY]
    new_length = min(length + 1, len(path) - 1)
    code = path[0]
    path[0] = 0
    path_entry[0] = -1
    for order in range(1, new_length):
        entry = entries[order - 1]
        link = np.int64(FRESH)
        if entry >= 0:
            link = np.int64(entry_link[entry, at.SUCCESSOR])
        elif code < 0 and code != FRESH and history[-1 - code] == symbol:
            link = code - 1  # the tail goes on as the history does
        if link < 0 and link != FRESH:
            place = -1 - link
            if place >= now or history[place] == BORDER:  # nothing followed there: as good as never met
                link = np.int64(FRESH)
        if link == FRESH and not eager:
            if keep == at.LEARN:
                _point_to_now(entry_link, entries, order, new_length, now)
            return order
        code = path[order]
        path[order] = link
        path_entry[order] = entry
    return new_length


@kernel
def start_document(tree: SuffixStore, borders: int) -> None:
    """Close the document: its end predicts nothing and the next one begins in the empty context.

    With ``borders`` the beginning of a document is itself a context (node 1), and so are its first symbols.
    """
    if tree.size[at.HISTORY] > tree.size[at.BEGIN]:
        tree.history[tree.size[at.HISTORY]] = BORDER
        tree.size[at.HISTORY] += 1
    tree.size[at.BEGIN] = tree.size[at.HISTORY]
    tree.path[0] = 0
    tree.path[1] = 1
    tree.path_entry[0] = -1
    tree.path_entry[1] = -1
    tree.size[at.START] = min(1 + borders, len(tree.path) - 1)
    tree.size[at.PATH] = tree.size[at.START]


def linked(tree: SuffixStore) -> SuffixStore:
    """The same tree, its lists and its hash table made again from its entries, with room for one more symbol."""
    slots = 4096
    while slots < 2 * (int(tree.size[at.ENTRIES]) + 2 * len(tree.path)):
        slots *= 2
    tree = tree._replace(table=np.full(slots, -1, np.int32))
    relink(tree)
    return tree


def with_capacity(tree: SuffixStore, symbols: int) -> SuffixStore:
    """The same tree in arrays with room for at least one more symbol, and for the history of ``symbols`` more.

    Arrays that are nearly full grow by half: what is copied stays a small multiple of what is stored.
    """
    size = tree.size.tolist()
    if size[at.HISTORY] + symbols > MOST_SYMBOLS:
        raise ValueError(f"a model learns at most {MOST_SYMBOLS} symbols in all: begin a new one")
    length = len(tree.path)  # of the longest path: a symbol takes no more than a context and two entries for each
    spare = {at.NODES: length, at.ENTRIES: 2 * length, at.HISTORY: symbols + 2}
    grown = {}
    for name, place in at.SIZE_OF.items():
        array, used = getattr(tree, name), size[place]
        if used + spare[place] > len(array):
            grown[name] = np.zeros((used + max(used // 2, spare[place]), *array.shape[1:]), array.dtype)
            grown[name][:used] = array[:used]
    tree = tree._replace(**grown)
    return tree if len(tree.table) >= 2 * (size[at.ENTRIES] + 2 * length) else linked(tree)
