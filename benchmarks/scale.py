"""Rows against time and memory: Friedman's function of ten inputs, generated chunk by chunk, never all in memory.

    python benchmarks/scale.py [--rows 1e5 1e6 1e7] [--workers 0 1 2]

Each fit runs in a process of its own: in chunks on one core (workers 0), or on a local Dask cluster of so many workers
of one thread each. Printed: wall-clock seconds; CPU seconds of the client, which plans and finalizes, and of the tasks
of the busiest and of all workers (those of the tasks' threads: on a machine that is not calm, the others' polling is no
part of the work); the largest resident memory of a process; the merges' share of the tasks' time, transfers included;
and the loss on 10,000 further rows above that of the true density. Last, the efficiency of two workers against one: by
the wall clock, which wants a calm machine (its load is printed), and by CPU time, client + busiest worker.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

from scale_forest import friedman
from scipy import stats

from coverwalk import ConditionalDensity

CHUNK = 2**17


def chunk(i: int, n: int):
    X, y, _, _ = friedman(min(CHUNK, n - i * CHUNK), 100 + i)
    return X, y


def memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def timed(function):
    """The same, counting the CPU time of its thread with the worker."""

    def inner(*arguments):
        from distributed import get_worker

        start = time.thread_time()
        result = function(*arguments)
        worker = get_worker()
        worker.spent = getattr(worker, "spent", 0.0) + time.thread_time() - start
        return result

    inner.__name__ = function.__name__
    return inner


def in_chunks(n: int, trees: int) -> tuple[ConditionalDensity, dict]:
    start, cpu = time.perf_counter(), time.process_time()
    numbers = range(-(-n // CHUNK))
    model = ConditionalDensity(trees, n_jobs=1).fit_chunks(lambda: (chunk(i, n) for i in numbers))
    facts = {"wall": time.perf_counter() - start, "client": time.process_time() - cpu, "memory": memory()}
    return model, {**facts, "busiest": 0.0, "workers": 0.0, "merging": 0.0}


def on_dask(n: int, trees: int, workers: int) -> tuple[ConditionalDensity, dict]:
    import dask.array as da
    from dask import delayed
    from distributed import Client, LocalCluster, get_task_stream

    from coverwalk.adapters import dask as adapter

    adapter._take, adapter._merge = timed(adapter._take), timed(adapter._merge)
    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, memory_limit=0)
    with cluster, Client(cluster) as client:
        client.run(lambda: ConditionalDensity(1).fit_chunks([friedman(2000, 0)[:2]], sample_rows=500) and None)
        pieces = [delayed(timed(chunk))(i, n) for i in range(-(-n // CHUNK))]
        sizes = [min(CHUNK, n - i * CHUNK) for i in range(len(pieces))]
        X = da.concatenate([da.from_delayed(p[0], (m, 10), float) for p, m in zip(pieces, sizes)])
        y = da.concatenate([da.from_delayed(p[1], (m,), float) for p, m in zip(pieces, sizes)])
        start, cpu = time.perf_counter(), time.process_time()
        with get_task_stream(client) as stream:
            model = adapter.DaskConditionalDensity(client=client, n_estimators=trees, n_jobs=1).fit(X, y)
        wall, own = time.perf_counter() - start, time.process_time() - cpu
        # a worker that no task came to, as where one chunk is all there is, has spent nothing
        spent = list(client.run(lambda dask_worker: getattr(dask_worker, "spent", 0.0)).values())
        took = [(task["key"], sum(s["stop"] - s["start"] for s in task["startstops"])) for task in stream.data]
        merging = sum(t for key, t in took if str(key).startswith("_merge")) / max(sum(t for _, t in took), 1e-9)
        peak = max(memory(), *client.run(memory).values())
    facts = {"wall": wall, "client": own, "memory": peak, "busiest": max(spent), "workers": sum(spent)}
    return model.to_local(), {**facts, "merging": merging}


def one(n: int, trees: int, workers: int) -> None:
    ConditionalDensity(1).fit_chunks([friedman(2000, 0)[:2]], sample_rows=500)  # compiles
    model, facts = on_dask(n, trees, workers) if workers else in_chunks(n, trees)
    X, y, mean, std = friedman(10_000, 1)
    above = -model.log_likelihood(X, y) + stats.norm.logpdf(y, mean, std).mean()
    print(json.dumps({**facts, "above": above}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e5, 1e6, 1e7])
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--trees", type=int, default=16)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one(int(arguments.rows[0]), arguments.trees, arguments.workers[0])
        return
    print(
        "rows | workers | wall s | client CPU s | busiest worker CPU s | all workers CPU s | merging | GB | NLL above"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    for n in map(int, arguments.rows):
        found = {}
        for workers in arguments.workers:
            call = [sys.executable, __file__, "--one", "--rows", str(n), "--workers", str(workers)]
            done = subprocess.run([*call, "--trees", str(arguments.trees)], capture_output=True, env=environment)
            if done.returncode:
                sys.exit(done.stderr.decode())
            f = found[workers] = json.loads(done.stdout.splitlines()[-1])
            print(
                f"{n} | {workers} | {f['wall']:.1f} | {f['client']:.1f} | {f['busiest']:.1f} | {f['workers']:.1f} | "
                f"{f['merging']:.1%} | {f['memory']:.2f} | {f['above']:.4f}",
                flush=True,
            )
        if {1, 2} <= found.keys():
            wall = found[1]["wall"] / (2 * found[2]["wall"])
            work = [found[k]["client"] + found[k]["busiest"] for k in (1, 2)]
            load = os.getloadavg()[0]
            print(f"two workers: {wall:.2f} by the clock (load {load:.1f}), {work[0] / (2 * work[1]):.2f} by CPU time")


if __name__ == "__main__":
    main()
