"""The sequence models in plain Python: dictionaries of whole contexts, nothing compressed, nothing shared."""

import itertools
import math
from collections import defaultdict

BORDER = "border"


def logit(p):
    return math.log(p / (1 - p))


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def share_out(log_odds, share):
    p = sigmoid(log_odds)
    p = (1 - share) * p + share * (1 - p)
    return logit(p)


def suffixes(past, depth):
    """All contexts of a past, the empty one first."""
    return [tuple(past[len(past) - k :]) for k in range(min(depth, len(past)) + 1)]


class Belief:
    def __init__(self):
        self.c, self.t, self.n = defaultdict(float), defaultdict(float), defaultdict(int)
        self.stop = self.full = 0.0
        self.last = None


RATES = {"w": 0.08, "d": 0.1, "v": 0.05, "q": 0.1}
FIRST = {"w": logit(0.5), "d": logit(0.7), "v": logit(0.1), "q": logit(0.05)}


class SlowMixed:
    """The coarsening walk with three local models and tied priors."""

    def __init__(self, n_symbols, depth, share=0.02, alpha=2.0, grows=False):
        self.n_symbols, self.depth, self.share, self.alpha, self.grows = n_symbols, depth, share, alpha, grows
        self.beliefs = defaultdict(Belief)
        self.tied = defaultdict(float)
        self.new_document()

    def new_document(self):
        self.past = [BORDER]

    @staticmethod
    def bucket(kinds):
        return next((i for i, most in enumerate((0, 1, 2, 4, 8, 16, 64)) if kinds <= most), 7)

    def keys(self, order, longest, belief):
        count = sum(belief.c.values())
        row = min(12, max(0, math.ceil(math.log2(count / 1.5)))) if count > 1.5 else 0
        kinds = self.bucket(len(belief.c))
        newest = 0 if longest == 0 or self.past[-1] == BORDER else 1 + self.past[-1] % 255
        return ("order", order), ("count", row, kinds), ("away", longest - order, kinds), ("new", newest, min(order, 7))

    def tied_odds(self, name, keys):
        return max(-6.0, min(6.0, FIRST[name] + sum(self.tied[(name, key)] for key in keys)))

    def walk(self, symbol):
        """By order: everything about the prediction of one symbol."""
        size = self.n_symbols + self.grows
        # contexts never met say what their parents say: they do not count as the longest
        met = [c for c in suffixes(self.past, self.depth) if self.beliefs[c].n or c in ((), (BORDER,))]
        below = 1 / size
        steps = []
        for order, context in enumerate(met):
            b = self.beliefs[context]
            if not b.n:
                steps.append({"seen": False, "b": b, "below": below, "w": 1.0 if order == 0 else 0.5, "back": 1.0})
                continue
            keys = self.keys(order, len(met) - 1, b)
            C, T, N = sum(b.c.values()), sum(b.t.values()), sum(b.n.values())
            d = sigmoid(self.tied_odds("d", keys))
            r = sigmoid(self.tied_odds("v", keys) + b.full)
            q = sigmoid(self.tied_odds("q", keys))
            w = sigmoid(self.tied_odds("w", keys) + b.stop) if order else 1.0
            c, t, n = b.c.get(symbol, 0.0), b.t.get(symbol, 0.0), b.n.get(symbol, 0)
            tables = (c - d * t + d * T * below) / C
            full = (n + self.alpha * below) / (N + self.alpha)
            again = 1.0 if symbol == b.last else 0.0
            counted = (1 - r) * tables + r * full
            phi = (1 - q) * counted + q * again
            psi = w * phi + (1 - w) * below
            back = (1 - q) * ((1 - r) * d * T / C + r * self.alpha / (N + self.alpha))
            step = {"seen": True, "b": b, "below": below, "w": w, "back": back, "keys": keys, "d": d, "r": r, "q": q}
            step |= {"tables": tables, "full": full, "again": again, "counted": counted, "phi": phi}
            steps.append(step | {"C": C, "T": T, "t": t})
            below = psi
        return below, (1 - 2.0**-40) * below + 2.0**-40 / size, steps

    def learn(self, symbol):
        psi, probability, steps = self.walk(symbol)
        reach = 1 / psi
        for order in reversed(range(len(steps))):
            s = steps[order]
            w = s["w"]
            if s["seen"]:
                b, below = s["b"], s["below"]
                slopes = {"q": reach * w * s["q"] * (1 - s["q"]) * (s["again"] - s["counted"])}
                if order:
                    slopes["w"] = reach * w * (1 - w) * (s["phi"] - below)
                    b.stop = share_out(b.stop + math.log(s["phi"] / below), self.share)
                here = reach * w * (1 - s["q"])
                slopes["v"] = here * s["r"] * (1 - s["r"]) * (s["full"] - s["tables"])
                slopes["d"] = here * (1 - s["r"]) * s["d"] * (1 - s["d"]) * (s["T"] * below - s["t"]) / s["C"]
                b.full = share_out(b.full + here * s["counted"] * math.log(s["full"] / s["tables"]), self.share)
                for name, slope in slopes.items():
                    for key in s["keys"]:
                        self.tied[(name, key)] += RATES[name] * slope
            reach *= 1 - w + w * s["back"]
        self.count(symbol, steps)
        return probability

    def count(self, symbol, steps):
        contexts = suffixes(self.past, self.depth)
        kappa = 1.0
        for order in reversed(range(len(contexts))):
            b = self.beliefs[contexts[order]]
            opened = 1.0
            if symbol in b.n:
                s = steps[order]
                new = s["d"] * s["T"] * s["below"]
                opened = new / (new + b.c[symbol] - s["d"] * b.t[symbol])
            b.c[symbol] += kappa
            b.t[symbol] += kappa * opened
            b.n[symbol] += 1
            b.last = symbol
            kappa *= opened
        self.past.append(symbol)
        if symbol == self.n_symbols:
            self.n_symbols += 1


def kt(counts, size):
    """Probability of a block with these counts under the Krichevsky-Trofimov estimator."""
    p, seen = 1.0, 0
    for n in counts:
        for i in range(n):
            p *= (i + 0.5) / (seen + size / 2)
            seen += 1
    return p


def context_counts(document, past, context, size):
    """How often each symbol follows a context (old to new); the past only gives contexts."""
    whole = list(past) + list(document)
    counts = [0] * size
    for i in range(len(past), len(whole)):
        if tuple(whole[i - len(context) : i]) == tuple(context) and len(context) <= i:
            counts[whole[i]] += 1
    return counts


def all_trees(size, depth, context=()):
    """Every context tree below a context, as the list of its leaves, with its prior probability under w = 1/2."""
    if len(context) == depth:
        yield [context], 1.0
        return
    yield [context], 0.5
    below = [list(all_trees(size, depth, (s, *context))) for s in range(size)]
    for choice in itertools.product(*below):
        yield [leaf for leaves, _ in choice for leaf in leaves], 0.5 * math.prod(p for _, p in choice)


def ctw_by_enumeration(document, past, size, depth):
    """The block probability as a sum over all trees, and each tree's joint probability."""
    joint = {}
    for leaves, prior in all_trees(size, depth):
        evidence = math.prod(kt(context_counts(document, past, leaf, size), size) for leaf in leaves)
        joint[tuple(sorted(leaves))] = prior * evidence
    return sum(joint.values()), joint


def ctw_by_recursion(document, past, size, depth, context=()):
    """Z = 1/2 Z_KT + 1/2 prod Z_child."""
    own = kt(context_counts(document, past, context, size), size)
    if len(context) == depth:
        return own
    below = math.prod(ctw_by_recursion(document, past, size, depth, (s, *context)) for s in range(size))
    return 0.5 * own + 0.5 * below


class SlowDirichlet:
    """Either walk with Dirichlet counts, symbol by symbol, every context stored."""

    def __init__(self, n_symbols, depth, walk, share=0.0, alpha=0.5, borders=True, grows=False):
        self.n_symbols, self.depth, self.walk, self.grows = n_symbols, depth, walk, grows
        self.share, self.alpha, self.borders = share, alpha, borders
        self.counts = defaultdict(lambda: defaultdict(int))
        self.evidence = defaultdict(float)
        self.new_document()

    def new_document(self):
        self.past = [BORDER] if self.borders else []

    def steps(self, symbol):
        """(context, phi, what going on predicts or None where it must stop, psi), in the order they are computed."""
        size = self.n_symbols + self.grows
        contexts = suffixes(self.past, self.depth)
        walked = contexts if self.walk == "coarsen" else contexts[::-1]
        steps, going_on = [], None
        for context in walked:
            n = self.counts[context]
            phi = (n.get(symbol, 0) + self.alpha) / (sum(n.values()) + self.alpha * size)
            k = len(context)
            psi = phi
            if going_on is not None:
                prior = 0.5**k if self.walk == "coarsen" else 0.5
                w = sigmoid(logit(prior) + self.evidence[context])
                psi = w * phi + (1 - w) * going_on
            steps.append((context, phi, going_on))
            going_on = psi
        return going_on, steps

    def learn(self, symbol):
        psi, steps = self.steps(symbol)
        for context, phi, going_on in steps:
            if going_on is not None:
                self.evidence[context] = share_out(self.evidence[context] + math.log(phi / going_on), self.share)
            self.counts[context][symbol] += 1
        self.past.append(symbol)
        self.n_symbols += symbol == self.n_symbols
        return psi
