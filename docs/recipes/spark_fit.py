"""Fit any estimator of coverwalk to a Spark dataframe, partition by partition, with `mapInArrow`."""

import pickle

import pyarrow

from coverwalk.forest.passes import accumulate_all, finalize, is_pass, merge, plan


def merged(a, b):
    return pickle.dumps(merge(pickle.loads(a), pickle.loads(b)))


def fit(model, frame, target):
    inputs = [column for column in frame.columns if column != target]
    head = frame.limit(1).toPandas()
    state = plan(model, head[inputs], head[target])
    while is_pass(state):
        sent = frame.sparkSession.sparkContext.broadcast(state)

        def take(batches, sent=sent):
            frames = (batch.to_pandas() for batch in batches)
            taken = accumulate_all(sent.value, ((rows[inputs], rows[target]) for rows in frames), "batch")
            yield pyarrow.RecordBatch.from_pydict({"state": [pickle.dumps(taken)]})

        states = frame.mapInArrow(take, "state binary").rdd.map(lambda row: bytes(row.state))
        state = finalize(pickle.loads(states.treeReduce(merged)))
    return state
