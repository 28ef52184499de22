"""Threads and interrupts: readers see one moment, writers take turns, and a call happens wholly or not at all."""

import copy
import gc
import importlib.util
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from coverwalk import DoubleTree, cli, locks
from coverwalk.locks import adopt, alone, reads, turns_of, unfitted, writes


def benchmark(name):
    path = Path(__file__).parents[1] / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Pair(BaseEstimator):
    """Two numbers that are equal at every moment."""

    def __init__(self, pause=0.0):
        self.pause = pause

    def _set(self, value):
        self.first_ = value
        time.sleep(self.pause)
        self.second_ = value

    @writes
    def learn(self, value, fail=None):
        with alone(self):
            self._set(value)
            if fail is not None:
                raise fail

    @writes
    def fit(self, value):
        fresh = unfitted(self)
        fresh._set(value)
        return adopt(self, fresh)

    @reads
    def predict(self):
        if not hasattr(self, "first_"):
            raise NotFittedError("not fitted")
        first = self.first_
        time.sleep(self.pause)
        return first, self.second_

    @reads
    def twice(self):
        return self.predict()  # a reader within a reader


def test_readers_see_one_moment_beside_two_writers():
    model, seen = Pair(pause=1e-4).fit(0), []
    end = time.perf_counter() + 1.0

    def write(start):
        value = start
        while time.perf_counter() < end:
            value += 2
            (model.learn if value % 3 else model.fit)(value)

    def read():
        while time.perf_counter() < end:
            seen.append(model.twice())

    threads = [threading.Thread(target=write, args=(k,)) for k in (0, 1)]
    threads += [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert not any(thread.is_alive() for thread in threads)
    assert len(set(seen)) > 5
    assert all(first == second for first, second in seen)


class SlowPair(Pair):
    """A pair whose reader stands still between the two numbers until it is told to go on."""

    def __init__(self, pause=0.0):
        super().__init__(pause)
        self.inside, self.go_on = threading.Event(), threading.Event()

    @reads
    def predict(self):
        first = self.first_
        self.inside.set()
        self.go_on.wait(20)
        return first, self.second_


@pytest.mark.parametrize("write", ["learn", "fit"])
@pytest.mark.parametrize("read", ["predict", "twice"])
def test_a_writer_waits_until_a_slow_reader_is_done(read, write):
    model, seen = SlowPair(), []
    model._set(1)
    reader = threading.Thread(target=lambda: seen.append(getattr(model, read)()))
    writer = threading.Thread(target=getattr(model, write), args=(2,))
    reader.start()
    assert model.inside.wait(20)
    writer.start()
    writer.join(timeout=0.3)
    waited = writer.is_alive()
    model.go_on.set()
    for thread in (reader, writer):
        thread.join(timeout=20)
    assert seen == [(1, 1)]
    assert waited
    assert (model.first_, model.second_) == (2, 2)


@pytest.mark.parametrize(
    "name", ["ConditionalDensity", "DoubleTree", "ContextClassifier", "SequenceModel", "CoverModel"]
)
def test_a_model_does_not_change_while_it_is_read(name):
    task = benchmark("threads").TASKS[name]
    model = task.make()
    task.learn(model, 0)
    writer = threading.Thread(target=task.learn, args=(model, 1))
    with locks.reading(model):
        before = task.predict(model)
        writer.start()
        writer.join(timeout=0.3)
        assert writer.is_alive()
        assert task.predict(model) == before
    writer.join(timeout=20)
    assert task.predict(model) != before


def interrupt_after(seconds):
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def test_an_interrupt_is_answered_once_a_change_in_place_is_whole():
    model = Pair(pause=0.3).fit(1)
    timer = interrupt_after(0.1)
    with pytest.raises(KeyboardInterrupt):
        model.learn(2)
    timer.join()
    assert model.predict() == (2, 2)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupted_fit_leaves_the_model_as_it_was():
    model = Pair(pause=0.3).fit(1)
    timer = interrupt_after(0.1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(2)
    timer.join()
    assert model.predict() == (1, 1)


def test_a_writer_that_waits_for_a_reader_can_be_interrupted():
    model = Pair(pause=1.0).fit(1)
    reader = threading.Thread(target=model.predict)
    reader.start()
    time.sleep(0.2)
    timer = interrupt_after(0.1)
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        model.learn(2)
    assert time.perf_counter() - start < 0.7
    timer.join()
    reader.join()
    assert model.predict() == (1, 1)


def test_an_error_in_place_leaves_the_model_unfitted_and_usable():
    model = Pair().fit(1)
    with pytest.raises(MemoryError):
        model.learn(2, MemoryError())
    with pytest.raises(NotFittedError):
        model.predict()
    assert model.fit(3).predict() == (3, 3)


def test_locks_are_no_part_of_a_model(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(2, 50))
    model = DoubleTree().fit(X[:, None], y)
    with turns_of(model).writer:  # held by this thread, and not by the copies
        others = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
        model.save(tmp_path / "model.cover")
    others.append(DoubleTree.load(tmp_path / "model.cover"))
    done = []
    thread = threading.Thread(target=lambda: done.extend(other.learn_one(0.5, 0.5) for other in others))
    thread.start()
    thread.join(timeout=20)
    assert len(done) == 3
    assert not any("lock" in name for name in vars(model))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore")
def test_a_forked_process_begins_with_new_locks():
    model = Pair().fit(1)
    held, release = threading.Event(), threading.Event()

    def hold():
        with turns_of(model).writer:
            held.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        model.learn(2)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    release.set()
    thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore")
def test_a_fork_waits_until_a_change_is_whole():
    model, begun = Pair().fit(1), threading.Event()

    def change():
        with turns_of(model).writer, alone(model):
            model.first_ = 2
            begun.set()
            time.sleep(0.3)
            model.second_ = 2

    thread = threading.Thread(target=change)
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os._exit(int(model.first_ != model.second_))
    assert os.waitpid(child, 0)[1] == 0
    thread.join()
    assert model.fit(3).second_ == 3  # the parent goes on


def test_who_reads_for_the_first_time_does_not_wait_for_a_long_fit():
    model, read = Pair().fit(1), threading.Event()
    with turns_of(model).writer:  # a fit that is not yet alone
        thread = threading.Thread(target=lambda: (model.predict(), read.set()))
        thread.start()
        assert read.wait(timeout=10)
    thread.join()


@pytest.mark.parametrize("name", ["DoubleTree", "ContextClassifier", "SequenceModel", "CoverModel"])
def test_predictions_beside_learning_are_those_of_some_moment(name):
    fine, said = benchmark("threads").run(name, 2.0)
    assert fine, said


@pytest.mark.parametrize(
    "name", ["DoubleTree.partial_fit", "DoubleTree.fit", "SequenceModel.fit", "CoverModel.update_many"]
)
def test_interrupts_raise_keyboard_interrupt_and_lose_nothing(name, request):
    callbacks = gc.callbacks.copy()  # Dask has one, and Python drops an interrupt within it
    request.addfinalizer(lambda: gc.callbacks.extend(callbacks))
    gc.callbacks.clear()
    outcomes = benchmark("interrupts").run(name, 8)
    assert all(outcome.startswith("ok") for outcome in outcomes), outcomes


@pytest.mark.parametrize(
    ("module", "file"),
    [("llvmlite.binding.executionengine", "llvm"), ("importlib._bootstrap", "<frozen importlib._bootstrap>")],
)
def test_an_interrupt_where_python_would_drop_it_comes_a_moment_later(module, file):
    names = {"__name__": module, "interrupt": cli._interrupt, "sys": sys}
    exec(compile("def cb():\n    interrupt(2, sys._getframe())", file, "exec"), names)
    names["cb"]()
    with pytest.raises(KeyboardInterrupt):
        time.sleep(10)
    with pytest.raises(KeyboardInterrupt):
        cli._interrupt(signal.SIGINT, sys._getframe())


def test_an_interrupted_command_ends_with_130_and_leaves_nothing(tmp_path):
    (tmp_path / "text").write_bytes(os.urandom(2**22))
    program = benchmark("interrupts").PROGRAM
    command = [sys.executable, "-c", program, "compress", str(tmp_path / "text")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said, os.listdir(tmp_path)) == (130, "", ["text"])


def test_locks_are_let_go_with_their_model():
    model = Pair().fit(1)
    n = len(locks._turns)
    del model
    assert len(locks._turns) < n
