"""Fit any estimator of coverwalk to a Ray dataset, block by block; states from Ray's store are read-only, so copied."""

from copy import deepcopy
from functools import reduce

import ray

from coverwalk.forest.passes import accumulate, finalize, is_pass, merge, plan


@ray.remote
def take(state, block, target, where):
    return accumulate(deepcopy(state), block.drop(columns=target), block[target], where=where)


@ray.remote
def merged(*states):
    return reduce(merge, states)


def fit(model, dataset, target):
    head, blocks = dataset.limit(1).to_pandas(), dataset.to_pandas_refs()
    state = plan(model, head.drop(columns=target), head[target])
    while is_pass(state):
        sent = ray.put(state)
        parts = [take.remote(sent, block, target, f"block {i}") for i, block in enumerate(blocks)]
        while len(parts) > 1:
            parts = [merged.remote(*parts[k : k + 8]) for k in range(0, len(parts), 8)]
        state = finalize(deepcopy(ray.get(parts[0])))
    return state
