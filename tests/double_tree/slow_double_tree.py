"""The double pseudo-tree with priors that flow from parent to child, in plain Python: dictionaries and logarithms.

Shares nothing with the kernels but the map of the line, which `test_estimator.py` checks on its own.
"""

from math import lgamma, log, log1p, pi

import numpy as np

from coverwalk.local._heavy_tails import flat_cdf, flat_logpdf


def log_mix(log_odds, log_base, log_rival):
    return float(np.logaddexp(log_base, log_odds + log_rival) - np.logaddexp(0.0, log_odds))


class Context:
    def __init__(self, model, depth, parent):
        self.depth, self.children, self.split, self.rows = depth, None, None, []
        self.log_o = log(model.w(depth)) - log1p(-model.w(depth))
        self.log_v = 0.0
        self.Y = []
        self.mean0 = np.zeros(model.q) if parent is None else model.normal(parent)[0]
        self.points = {}  # y cell -> points
        self.log_g = {}  # y cell -> log odds of going on


class SlowDoubleTree:
    def __init__(self, p, q, *, refine, alpha, y_depth, a, lam, nu0, psi0):
        self.q, self.refine, self.alpha, self.y_depth = q, refine, alpha, y_depth
        self.a, self.lam, self.nu0, self.psi0 = a, lam, nu0, psi0
        self.root = Context(self, 0, None)

    def w(self, depth):
        return 0.5 if self.refine else 2.0 ** -max(depth, 1)

    def cells(self, y):
        u = flat_cdf(y, 0.0, 1.0)
        cells = [()]
        for j in range(self.y_depth):
            bit = int(u[j % self.q] * 2.0 ** (j // self.q + 1)) & 1
            cells.append((*cells[-1], bit))
        return cells

    def normal(self, m):
        """Posterior mean and Psi from all rows at once."""
        n = len(m.Y)
        Y = np.array(m.Y).reshape(n, self.q)
        kappa = self.lam + n
        mean = (self.lam * m.mean0 + Y.sum(0)) / kappa
        centred = Y - mean
        shift = mean - m.mean0
        return mean, self.psi0 * np.eye(self.q) + centred.T @ centred + self.lam * np.outer(shift, shift)

    def log_normal(self, m, y):
        n, q = len(m.Y), self.q
        mean, Psi = self.normal(m)
        kappa, df = self.lam + n, self.nu0 + n - q + 1
        S = Psi * (kappa + 1) / (kappa * df)
        d = y - mean
        quad = float(d @ np.linalg.solve(S, d))
        return (
            lgamma((df + q) / 2) - lgamma(df / 2) - q / 2 * log(df * pi)
            - 0.5 * np.linalg.slogdet(S)[1] - (df + q) / 2 * log1p(quad / df)
        )  # fmt: skip

    def log_tree(self, m, y, log_stop, learn):
        """log predictive of the cells below each depth; log_stop is the parent's, replaced by m's."""
        depth = max(self.y_depth - m.depth, min(self.y_depth, 4 * self.q))
        cells = self.cells(y)[: depth + 1]
        bottom = next((j for j in range(1, depth) if m.points.get(cells[j], 0) == 0), depth)
        log_here = log_stop[bottom]
        for j in range(bottom - 1, -1, -1):
            n, side = m.points.get(cells[j], 0), m.points.get(cells[j + 1], 0)
            log_go = log(2 * (side + self.a) / (n + 2 * self.a)) + log_here
            log_g = m.log_g.get(cells[j], 0.0)
            log_here = log_mix(log_g, log_stop[j], log_go)
            if learn:
                m.log_g[cells[j]] = log_g + log_go - log_stop[j]
            log_stop[j] = log_here
        if learn:
            for cell in cells:
                m.points[cell] = m.points.get(cell, 0) + 1
        return log_here + float(flat_logpdf(y, 0.0, 1.0).sum())

    def path(self, x):
        m, path = self.root, [self.root]
        while m.children:
            m = m.children[int(x[m.split[0]] > m.split[1])]
            path.append(m)
        return path

    def log_phi(self, m, y, log_stop, learn):
        log_T, log_N = self.log_tree(m, y, log_stop, learn), self.log_normal(m, y)
        log_phi = log_mix(m.log_v, log_T, log_N)
        if learn:
            m.log_v += log_N - log_T
            m.Y.append(y)
        return log_phi

    def observe(self, x, y, learn):
        path, log_stop = self.path(x), [0.0] * (self.y_depth + 1)
        log_phi = [self.log_phi(m, y, log_stop, learn) for m in path]
        order = list(range(len(path)))[:: -1 if self.refine else 1]
        log_psi = log_phi[order[0]]
        for k in order[1:]:
            before = log_psi
            log_psi = log_mix(path[k].log_o, before, log_phi[k])
            if learn:
                path[k].log_o += log_phi[k] - before
        if learn:
            path[-1].rows.append([x, y, log_psi, log_stop])
            path[-1].log_Z = getattr(path[-1], "log_Z", 0.0) + log_phi[-1]
            self.split_while_full(path)
        return log_psi

    def split_while_full(self, path):
        m = path[-1]
        X = np.array([row[0] for row in m.rows])
        sides = np.ptp(X, axis=0)
        if len(X) <= self.alpha**m.depth or sides.max() == 0:
            return
        axis = int(np.argmax(sides))
        m.split = (axis, 0.5 * X[:, axis].min() + 0.5 * X[:, axis].max())
        children = [Context(self, m.depth + 1, m) for _ in range(2)]
        for row in m.rows:
            x, y, log_psi, log_stop = row
            child = children[int(x[axis] > m.split[1])]
            log_phi = self.log_phi(child, y, log_stop, True)
            if self.refine:
                child.log_Z = getattr(child, "log_Z", 0.0) + log_phi
            else:
                row[2] = log_mix(child.log_o, log_psi, log_phi)
                child.log_o += log_phi - log_psi
            child.rows.append(row)
        m.children, m.rows = children, []
        if self.refine:
            log_Z = sum(child.log_Z for child in children)
            change = log_mix(m.log_o, log_Z - m.log_Z, 0.0)
            m.log_o += m.log_Z - log_Z
            for above in reversed(path[:-1]):
                log_o = above.log_o
                above.log_o -= change
                change = log_mix(log_o, change, 0.0)
        for child in children:
            if child.rows:
                self.split_while_full([*path, child])
