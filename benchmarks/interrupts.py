"""Ctrl-C at random moments of every call that learns or predicts: what is raised, and what is left of the model.

    python benchmarks/interrupts.py --interrupts 300

Each task runs in a process of its own, which must survive. A call that was interrupted must raise KeyboardInterrupt and
nothing else, and leave the model as it was, wholly as it would be after the call, or unfitted. A command must end with
130, or with 0 where it was done, say nothing of Python, and leave its files as they were or whole, and none besides.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from copy import deepcopy
from pathlib import Path

import numpy as np
from sklearn.exceptions import NotFittedError

from coverwalk import ConditionalDensity, ContextClassifier, CoverModel, Density, DoubleTree, SequenceModel, load
from coverwalk.covers import KDTree
from coverwalk.local import Polynomial
from coverwalk.sequences.compression import compress, decompress

RNG = np.random.default_rng(0)
X = RNG.normal(size=(700, 3))
Y = X[:, 0] + X[:, 1] ** 2 + 0.3 * RNG.normal(size=700)
TEXT = "it was the best of times, it was the worst of times, " * 40
PROBE, AT = X[:5], Y[:5]
MANY = (np.tile(X, (8, 1)), np.tile(Y, 8))  # more rows than are learned in place
WIDE = RNG.normal(size=(1300, 2))  # with growths on a thread of their own
HIGH = WIDE[:, 0] + 0.3 * RNG.normal(size=1300)
CHUNKS = [(X[s : s + 200], Y[s : s + 200]) for s in range(0, 600, 200)]


def density(model):
    return model.logpdf(PROBE, AT).tobytes()


def forest(**options):
    return ConditionalDensity(n_estimators=3, stop=0.5, degree=1, **options).fit(X[:80], Y[:80])


def stream(**options):
    return ConditionalDensity(n_estimators=3, **options).partial_fit(X[:200], Y[:200])


def growing():
    return ConditionalDensity(n_estimators=2, stop=0.5, degree=1).partial_fit(WIDE[:1040], HIGH[:1040])


def learn_each(model):
    for x, y in zip(WIDE[1040:1300], HIGH[1040:1300]):
        model.learn_one(x, y)


def cover_model():
    model = CoverModel(KDTree(3), Polynomial(0))
    model.update_many(X[:30], Y[:30])
    return model


def classifier():
    return ContextClassifier(3, 2, random_state=0).fit(X[:200], Y[:200] > 1)


class Stored:
    """A model, and the file that it is saved over; a copy has a file of its own."""

    def __init__(self, model, content=None):
        self.model, self.folder = model, tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name, "model.cover")
        self.path.write_bytes(content) if content else byte_model().save(self.path)

    def __deepcopy__(self, memo):
        return Stored(self.model, self.path.read_bytes())

    def content(self):
        """All that the folder holds."""
        return [(path.name, path.read_bytes()) for path in sorted(self.path.parent.iterdir())]


def byte_model():
    return SequenceModel().fit(TEXT.encode())


def next_byte(model):
    return model.predict_proba(b"it was").tobytes()


def density_of_rows(model):
    return model.logpdf(WIDE[:5], HIGH[:5]).tobytes()


# name: how a model is made, what is interrupted, what tells its state
TASKS = {
    "fit": (forest, lambda m: m.fit(X, Y), density),
    "fit_chunks": (forest, lambda m: m.fit_chunks(CHUNKS, sample_rows=200), density),
    "partial_fit": (stream, lambda m: m.partial_fit(X[200:300], Y[200:300]), density),
    "partial_fit, many rows": (stream, lambda m: m.partial_fit(*MANY), density),
    "learn_one": (stream, lambda m: m.learn_one(X[300], Y[300]), density),
    "partial_fit, growths beside": (growing, lambda m: m.partial_fit(WIDE[1040:], HIGH[1040:]), density_of_rows),
    "learn_one, growths beside": (growing, learn_each, lambda m: (m.stream_.n_rows, density_of_rows(m))),
    "DoubleTree.partial_fit": (
        lambda: DoubleTree().fit(X[:200], Y[:200]),
        lambda m: m.partial_fit(X[200:], Y[200:]),
        density,
    ),
    "predict": (forest, lambda m: m.predict_dist(MANY[0]).ppf([0.1, 0.9]), density),
    "predict, stream": (stream, lambda m: m.predict_dist(MANY[0]).cdf(0.0), density),
    "DoubleTree.fit": (lambda: DoubleTree().fit(X[:50], Y[:50]), lambda m: m.fit(X, Y), density),
    "Density.fit": (
        lambda: Density(2).fit(X[:100]),
        lambda m: m.fit(X),
        lambda m: m.logpdf(PROBE).tobytes(),
    ),
    "ContextClassifier.fit": (
        classifier,
        lambda m: m.fit(X, Y > 1),
        lambda m: m.predict_proba(PROBE).tobytes(),
    ),
    "ContextClassifier.partial_fit": (
        classifier,
        lambda m: m.partial_fit(X[200:260], Y[200:260] > 1),
        lambda m: m.predict_proba(PROBE).tobytes(),
    ),
    "SequenceModel.fit": (
        lambda: SequenceModel("abc").fit("abcabc" * 20),
        lambda m: m.fit("abcacb" * 2000),
        lambda m: m.predict_proba("abc").tobytes(),
    ),
    "SequenceModel.fit, bytes": (byte_model, lambda m: m.fit(TEXT.encode() * 4), next_byte),
    "SequenceModel.partial_fit, bytes": (byte_model, lambda m: m.partial_fit(TEXT.encode() * 4), next_byte),
    "SequenceModel.partial_fit, many bytes": (byte_model, lambda m: m.partial_fit(TEXT.encode() * 40), next_byte),
    "compress": (byte_model, lambda m: decompress(compress(TEXT.encode() * 4)), next_byte),
    "save": (lambda: Stored(stream()), lambda s: s.model.save(s.path), lambda s: str(s.content())),
    "load": (lambda: Stored(stream()), lambda s: load(s.path).predict_proba(b"it was"), lambda s: str(s.content())),
    "CoverModel.update_many": (
        cover_model,
        lambda m: m.update_many(X[30:110], Y[30:110]),
        lambda m: tuple(m.log_predict(x, y) for x, y in zip(PROBE, AT)),
    ),
}


def interrupted(call, model, delay):
    """Make the call and interrupt it after a delay; what it raised, if the interrupt came in time."""
    begun, done = threading.Event(), threading.Event()

    def interrupt():
        begun.wait()
        if not done.wait(delay):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    raised = None
    try:
        try:
            begun.set()
            call(model)
        except BaseException as error:
            raised = error
        done.set()
        thread.join()
    except KeyboardInterrupt:  # it came after the call
        thread.join()
    return raised


def moments(model, fingerprint):
    """The states of a model that learns row by row, which all are whole."""
    found = set()
    for x, y in zip(WIDE[1040:1300], HIGH[1040:1300]):
        model.learn_one(x, y)
        found.add(fingerprint(model))
    return found


def run(name, n):
    """Interrupt a task n times; how often each outcome was seen. Only those that begin with "ok" are right."""
    make, call, fingerprint = TASKS[name]
    first = make()
    call(deepcopy(first))  # compiles
    start = time.perf_counter()
    after = deepcopy(first)
    call(after)
    took = time.perf_counter() - start
    outcomes = Counter()
    model, before = make(), fingerprint(first)
    later = moments(deepcopy(first), fingerprint) if call is learn_each else {fingerprint(after)}
    for _ in range(n):
        raised = interrupted(call, model, random.uniform(0.0, took))
        if raised is None:
            outcome = "ok: the interrupt came too late"
        elif type(raised) is not KeyboardInterrupt:
            outcome = f"wrong: {type(raised).__name__}: {raised}"
        else:
            outcome = "ok: as it was"
        try:
            state = fingerprint(model)
        except NotFittedError:
            state, outcome = before, f"{outcome}, unfitted"
        if state != before and raised is not None:
            outcome = "ok: wholly learned" if state in later else "wrong: neither as it was nor wholly learned"
        if state != before or "unfitted" in outcome:
            model = make()
        outcomes[outcome] += 1
    return outcomes


PROGRAM = "import sys; from coverwalk.cli import console; print(flush=True); sys.exit(console())"


def run_command_line(n):
    """Interrupt each of some commands n times."""
    outcomes = Counter()
    with tempfile.TemporaryDirectory() as folder:
        table, text = Path(folder, "rows.csv"), Path(folder, "text")
        np.savetxt(table, np.column_stack([X, Y]), delimiter=",", header="a,b,c,y", comments="")
        text.write_text(TEXT * 3)
        model, packed, again, out = (str(Path(folder, name)) for name in ("rows.cover", "text.cwz", "again", "out.csv"))
        commands = [  # with what each writes
            (["fit", str(table), "--target", "y", "--trees", "3", "-o", model], model),
            (["predict", model, str(table), "-o", out], out),
            (["learn", model, str(table), "--in-place"], model),
            (["compress", str(text), "--force", "--memory", "8MB"], packed),
            (["decompress", packed, "-o", again, "--force"], again),
        ]
        for command, written in commands:
            for outcome in interrupted_command(command, Path(written), n):
                outcomes[f"{outcome.partition(':')[0]}: {command[0]},{outcome.partition(':')[2]}"] += 1
    return outcomes


def interrupted_command(command, written, n):
    """Interrupt a command n times, from the same files every time; what came of each."""
    before = {path: path.read_bytes() for path in written.parent.iterdir()}
    start = time.perf_counter()
    call = [sys.executable, "-c", PROGRAM, *command]
    subprocess.run(call, check=True, capture_output=True)
    took, after = 0.9 * (time.perf_counter() - start), written.read_bytes()
    for _ in range(n):
        for path in written.parent.iterdir():
            path.unlink()
        for path, content in before.items():
            path.write_bytes(content)
        process = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdout.readline()  # Python itself has started
        time.sleep(random.uniform(0.0, took))
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
        now = {path: path.read_bytes() for path in written.parent.iterdir()}
        whole = now == {**before, written: after}
        right = (process.returncode == 0 and whole) or (process.returncode == 130 and (whole or now == before))
        left = [path.name for path in now.keys() - before.keys() - {written}]
        if right and "Traceback" not in said:
            yield f"ok: exit {process.returncode}"
        else:
            yield f"wrong: exit {process.returncode}, left {left}, {said[-300:]}"
    written.write_bytes(after)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--interrupts", type=int, default=300, help="of each task")
    parser.add_argument("--commands", type=int, default=20, help="interrupts of each command")
    parser.add_argument("--task", choices=[*TASKS, "command line"], help="this one alone, in this process")
    arguments = parser.parse_args()
    if arguments.task:
        outcomes = (
            run_command_line(arguments.commands)
            if arguments.task == "command line"
            else run(arguments.task, arguments.interrupts)
        )
        print(f"{arguments.task}: {dict(outcomes)}", flush=True)
        return any(outcome.startswith("wrong") for outcome in outcomes)
    failed = 0
    numbers = ["--interrupts", str(arguments.interrupts), "--commands", str(arguments.commands)]
    for task in [*TASKS, "command line"]:
        code = subprocess.run([sys.executable, __file__, "--task", task, *numbers], check=False).returncode
        failed += code != 0
        if code not in (0, 1):
            print(f"{task}: the process died with {code}", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
