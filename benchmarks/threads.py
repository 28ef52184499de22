"""Some threads learn while others predict, on every estimator that learns.

    python benchmarks/threads.py --seconds 60

Four threads. First one learns and three predict: it goes through the same rows again and again, so that the model of
every moment is known from a run without threads, and each prediction must be that of one of those moments, to the last
bit. Then two learn and two predict: no row may be lost.
"""

import argparse
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from coverwalk import ConditionalDensity, ContextClassifier, CoverModel, Density, DoubleTree, SequenceModel
from coverwalk.covers import KDTree
from coverwalk.local import Polynomial

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 2))
Y = X[:, 0] + X[:, 1] ** 2 + 0.3 * RNG.normal(size=600)
TEXT = "".join(RNG.choice(list("abc"), 6000))
BATCHES = [slice(s, s + 20) for s in range(100, 600, 20)]
PROBE, AT = X[:4], Y[:4]


class Task(NamedTuple):
    """A model before it learns, how it learns batch k, what it predicts, and how many rows it has learned."""

    make: Callable
    learn: Callable
    predict: Callable
    n_rows: Callable | None = None
    n_batches: int = 25

    def moments(self):
        """What it predicts after each batch, without threads."""
        model = self.make()
        seen = {self.predict(model)}
        for k in range(self.n_batches):
            self.learn(model, k)
            seen.add(self.predict(model))
        return seen


def learn_rows(model, k):
    model.partial_fit(X[BATCHES[k]], Y[BATCHES[k]])


def distribution(model):
    dist = model.predict_dist(PROBE)  # of one moment; two calls would be of two
    return dist.logpdf(AT).tobytes() + dist.cdf(AT).tobytes()


TASKS = {
    "ConditionalDensity": Task(
        lambda: ConditionalDensity(n_estimators=2, stop=0.5, degree=1).partial_fit(X[:100], Y[:100]),
        learn_rows,
        distribution,
        lambda m: m.stream_.n_rows,
    ),
    "ConditionalDensity.fit": Task(
        lambda: ConditionalDensity(n_estimators=2, stop=0.5, degree=1).fit(X[:100], Y[:100]),
        lambda m, k: m.fit(X[: 120 + 20 * k], Y[: 120 + 20 * k]),
        distribution,
        n_batches=3,
    ),
    "DoubleTree": Task(
        lambda: DoubleTree().fit(X[:100], Y[:100]),
        learn_rows,
        lambda m: m.logpdf(PROBE, AT).tobytes(),
        lambda m: m.n_rows_,
    ),
    "Density": Task(
        lambda: Density(2).fit(X[:100]),
        lambda m, k: m.fit(X[BATCHES[k]]),
        lambda m: m.logpdf(PROBE).tobytes(),
        n_batches=3,
    ),
    "ContextClassifier": Task(
        lambda: ContextClassifier(3, 2, random_state=0).fit(X[:100], Y[:100] > 1),
        lambda m, k: m.partial_fit(X[BATCHES[k]], Y[BATCHES[k]] > 1),
        lambda m: m.predict_proba(PROBE).tobytes(),
        lambda m: m.n_rows_,
    ),
    "SequenceModel": Task(
        lambda: SequenceModel("abc").fit(TEXT[:1000]),
        lambda m, k: m.partial_fit(TEXT[1000 + 200 * k : 1200 + 200 * k]),
        lambda m: m.predict_proba("abcab").tobytes(),
        lambda m: m.n_symbols_seen_ // 10,
    ),
    "CoverModel": Task(
        lambda: CoverModel(KDTree(2), Polynomial(0)),
        lambda m, k: m.update_many(X[BATCHES[k]], Y[BATCHES[k]]),
        lambda m: m.log_predict(PROBE[0], AT[0]),
    ),
}


def together(workers, seconds):
    """Run functions again and again, each in a thread of its own, for a time; what they raised."""
    end, errors, counts = time.perf_counter() + seconds, [], [0] * len(workers)

    def work(i):
        try:
            while time.perf_counter() < end and not errors:
                workers[i]()
                counts[i] += 1
        except Exception:
            errors.append(traceback.format_exc())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(workers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors, counts


def consistent(task, seconds):
    """One learner beside three that predict: predictions, those of no moment, rounds of learning."""
    moments, seen, wrong = task.moments(), [], []
    model = task.make()

    def learn():
        nonlocal model
        model = task.make()
        for k in range(task.n_batches):
            task.learn(model, k)

    def predict():
        seen.append(1)
        if task.predict(model) not in moments:
            wrong.append(1)

    errors, counts = together([learn, predict, predict, predict], seconds)
    return errors, len(seen), len(wrong), counts[0]


def nothing_lost(task, seconds):
    """Two learners beside two that predict: how many rows are missing in the end."""
    if task.n_rows is None:
        return [], 0
    model = task.make()
    start, learned = task.n_rows(model), []

    def learn():
        task.learn(model, len(learned) % task.n_batches)
        learned.append(20)

    errors, _ = together([learn, learn, *2 * [lambda: task.predict(model)]], seconds)
    return errors, sum(learned) - (task.n_rows(model) - start)


def run(name, seconds):
    """Whether a task went well, and a line about it."""
    task = TASKS[name]
    errors, n, wrong, rounds = consistent(task, seconds / 2)
    more, lost = nothing_lost(task, seconds / 2)
    errors += more
    said = f"{name}: {n} predictions beside {rounds} rounds of learning, {wrong} of no moment; {lost} rows lost"
    return not (errors or wrong or lost), "\n".join([said, *errors[:1]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for each estimator")
    parser.add_argument("--only", choices=TASKS, help="this estimator alone")
    arguments = parser.parse_args()
    well = True
    for name in [arguments.only] if arguments.only else TASKS:
        fine, said = run(name, arguments.seconds)
        well = well and fine
        print(said, flush=True)
    return not well


if __name__ == "__main__":
    sys.exit(main())
