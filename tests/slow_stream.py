"""A stream in plain Python: what `coverwalk.forest.stream` does between growths, from its definitions.

Planes are solved from all rows at once (no rank-one steps), densities come from SciPy, and the walk is eq. 2 in
probabilities. To forget is to scale the quadratic form whose least point the plane is, so that the plane stays. Shares
no kernel with the package; it reads the fitted trees.
"""

import numpy as np
from scipy import stats
from scipy.special import logsumexp

RIDGE, NU_0 = 0.3, 2.0


def features(x, degree):
    f = [1.0]
    if degree >= 1:
        f += list(x)
    if degree >= 2:
        f += [x[a] * x[b] for a in range(len(x)) for b in range(a + 1)]
    return np.array(f)


class SlowContext:
    """What one context was fitted to, and every row that came since."""

    def __init__(self, records, k, rows, degree):
        c = records.slot[k]
        self.low, self.high, self.degree = records.low[c], records.high[c], degree
        self.centre, self.mean = records.centre[c], records.mean[c]
        self.parts = range(records.first[k], records.first[k + 1])
        self.kind, self.s2 = records.kind[self.parts], records.s2[self.parts]
        self.log_prior, self.log_choice = np.log(records.weight[0, self.parts]), 0.0
        self.log_odds = 0.0
        F = np.array([features(z, 1) for z in rows]).reshape(len(rows), len(self.low) + 1)
        # theta minimises theta'A theta - 2 b'theta + c: ridge and squares
        self.A, self.b, self.c = RIDGE * np.eye(F.shape[1]) + F.T @ F, np.zeros(F.shape[1]), 0.0
        self.nu = self.psi = NU_0 + len(rows)  # but for the least of squares since then

    def mu(self, x):
        return features(x, self.degree)[: len(self.centre)] @ self.centre

    def plane(self):
        theta = np.linalg.solve(self.A, self.b)
        return theta, self.c - self.b @ theta  # the least of squares plus penalty: the sum of e^2 / (1 + h)

    def ratio(self):
        return (self.psi + self.plane()[1] / self.s2[0]) / self.nu

    def fade(self, keep):
        """Let all that was learned count ``keep`` times as much; no direction is less certain than the ridge alone."""
        theta, least = self.plane()
        much = min(max(keep, RIDGE * np.linalg.inv(self.A).diagonal().max()), 1.0)
        psi, nu = self.psi + least / self.s2[0], NU_0 + keep * (self.nu - NU_0)
        self.A, self.b = much * self.A, much * self.b
        self.c = self.b @ theta
        self.psi, self.nu = psi * nu / self.nu, nu
        self.log_odds *= keep
        self.log_choice = keep * self.log_choice

    def predict(self, x, y, shape, shapes, factor):
        """Log densities of the components at y; and the weights v among them."""
        x = np.clip(x, self.low, self.high)
        loc, ratio = self.mu(x) + self.plane()[0] @ features(x, 1), self.ratio()
        out = []
        for q, kind, s2 in zip(self.parts, self.kind, self.s2):
            scale = factor * np.sqrt(s2 * (ratio if kind < 2 else 1.0))
            e = (y - (self.mean if kind >= 2 else loc)) / scale
            out.append(standard(shapes, int(shape[q]), e) - np.log(scale))
        return np.array(out)

    def learn(self, x, y):
        x = np.clip(x, self.low, self.high)
        f = features(x, 1)
        loc, h = self.plane()[0] @ f, f @ np.linalg.solve(self.A, f)
        far = 6 * np.sqrt(self.s2[0] * self.ratio() * (1 + h))
        e = y - self.mu(x) - loc
        self.clipped = abs(e) > far
        e = loc + np.clip(e, -far, far)
        self.A, self.b, self.c, self.nu = self.A + np.outer(f, f), self.b + f * e, self.c + e * e, self.nu + 1


def standard(shapes, s, e):
    """Log density of a standard shape."""
    if shapes.kind[s] == 0:
        return stats.t(shapes.df[s]).logpdf(e)
    a = slice(shapes.start[s], shapes.start[s + 1])
    weight, center, width = shapes.atom_weight[a], shapes.atom_center[a], shapes.atom_width[a]
    with np.errstate(divide="ignore"):
        if shapes.kind[s] == 1:
            return logsumexp(stats.norm(center, width).logpdf(e), b=weight)
        assert shapes.kind[s] == 3
        inside = (center <= e) & (e < center + width)
        return np.log((weight / width)[inside].sum())


class SlowTree:
    """One member of a forest."""

    def __init__(self, member, X, decay):
        self.member, self.decay, self.now = member, decay, len(X)
        Z = member.frame.rows(X).Z
        perm, layout = member.tree.arrange(Z)
        records = member.fitted.records
        self.contexts = {
            k: SlowContext(records, k, Z[perm[layout.start[k] : layout.end[k]]], member.degree)
            for k in range(len(records.slot))
            if records.slot[k] >= 0
        }
        self.seen = dict.fromkeys(self.contexts.values(), len(X))

    def way(self, x):
        """The contexts with components that contain x, fine to coarse."""
        tree, k, way = self.member.tree, 0, []
        while True:
            way.append(k)
            if tree.left[k] < 0:
                break
            k = int(tree.left[k]) + int(x[tree.feature[k]] > tree.split[k])
        return [self.contexts[k] for k in reversed(way) if k in self.contexts]

    def learn(self, x, y):
        """Log density of y before it is learned, in the frame's units."""
        member = self.member
        rows = member.frame.rows(x[None])
        z = rows.Z[0]
        target = member.frame.output.forward(np.array([[y]]))[0, 0]
        if member.part.smooth:
            target -= member.frame.origin(rows)[0]
        below, log_psi = 0.0, None
        for context in self.way(z):
            context.fade((1 - self.decay) ** (self.now - self.seen[context]))
            self.seen[context] = self.now
            log_phi = context.predict(z, target, member.fitted.shape, member.fitted.shapes, member.frame.scale_factor)
            here = member.fitted.records.weight[0, context.parts].sum()  # as the growth left it
            log_v = context.log_prior + context.log_choice
            log_phi_M = logsumexp(log_v + log_phi) - logsumexp(log_v)
            context.log_choice = context.log_choice + log_phi - log_phi_M
            if log_psi is None:
                log_psi = log_phi_M
            else:
                w = 1 / (1 + below / here * np.exp(-context.log_odds))
                psi = w * np.exp(log_phi_M) + (1 - w) * np.exp(log_psi)
                after = w * np.exp(log_phi_M) / psi  # eq. 2
                context.log_odds += np.log(after / (1 - after)) - np.log(w / (1 - w))
                log_psi = np.log(psi)
            below += here
            context.learn(z, target)
        self.now += 1
        return log_psi - np.log(member.frame.output.scale[0])


class SlowStream:
    """A pool of slow trees."""

    def __init__(self, stream, X):
        self.decay = stream.settings.decay
        self.trees = [SlowTree(member, X, self.decay) for member in stream.members]
        self.counts, self.n = stream.counts.copy(), stream.n_rows
        self.kinds = [(m.part.degree, m.part.smooth) for m in stream.members]
        self.output = stream.members[-1].frame.output

    def learn(self, x, y):
        psi = np.exp([tree.learn(x, y) for tree in self.trees])
        share = self.counts / self.counts.sum()
        rare = 0.1 / (self.n + 1)
        outlier = stats.t(3, self.output.centre[0], self.output.scale[0]).pdf(y)
        density = (1 - rare) * share @ psi + rare * outlier
        self.counts *= 1 - self.decay
        for kind in set(self.kinds):
            own = np.array([other == kind for other in self.kinds])
            self.counts[own] += (share[own] @ psi[own]) / (share @ psi) / own.sum()
        self.n += 1
        return np.log(density)
