"""The walk's own arithmetic, on routes written by hand."""

import numpy as np
import pytest

from coverwalk.walk import START, Refining, Stopping, Visit, Walk


def test_rows_with_other_moves_keep_their_share():
    """Rows that reach a and b redistribute the weight of these two; c, which they cannot reach, keeps its own."""
    stopping = {"M": Stopping.prior(0.25), START: Stopping.prior(0.0)}
    ab = [Visit("a", 1, ()), Visit("b", 1, ()), Visit("M", 0, [("a", "a"), ("b", "b")]), Visit(START, -1, [("M", "M")])]
    log_phi = {"a": np.log(3.0), "b": np.log(1.0), "M": np.log(2.0)}
    log_psi = Walk.predict(ab, stopping, log_phi)
    assert np.exp(log_psi["M"]) == pytest.approx(0.25 * 2 + 0.75 * 2)
    Walk.predict(ab, stopping, log_phi, learn=True)
    v = stopping["M"].log_v
    assert np.exp([v["a"], v["b"]]) == pytest.approx([1.5, 0.5])
    # c enters as an equal: 1 of 2.5 between a and c
    log_v, total = stopping["M"].move_weights([("a", "a"), ("c", "c")])
    assert np.exp(log_v) == pytest.approx([0.6, 0.4])
    assert np.exp(total) == pytest.approx(2.5)


def test_neither_w_nor_its_complement_is_lost():
    """After evidence of 10^4 nats for stopping, 10^4 nats against it bring the odds back."""
    stopping = {"M": Stopping.prior(0.5), START: Stopping.prior(0.0)}
    route = [Visit("a", 1, ()), Visit("M", 0, [(0, "a")]), Visit(START, -1, [("M", "M")])]
    for sign in (1, -1):
        for _ in range(100):
            log_phi = {"M": 50.0 * sign, "a": -50.0 * sign}
            Walk.predict(route, stopping, log_phi, learn=True)
        if sign == 1:
            assert stopping["M"].log_1mw == pytest.approx(-10_000)
    assert np.exp(stopping["M"].log_w) == pytest.approx(0.5, abs=1e-9)


def test_weights_follow_the_walk():
    stopping = {"M": Stopping.prior(0.3), "a": Stopping.prior(0.5), START: Stopping.prior(0.0)}
    route = [
        Visit("b", 2, ()),
        Visit("a", 1, [(0, "b")]),
        Visit("M", 0, [(0, "a")]),
        Visit(START, -1, [("M", "M")]),
    ]
    xi = {M: np.exp(log) for M, log in Walk.weights(route, stopping).items()}
    assert xi == pytest.approx({"M": 0.3, "a": 0.35, "b": 0.35})


def test_stop_may_depend_on_depth():
    walk = Refining(stop=lambda depth: 1 / (depth + 2))
    assert [float(np.exp(walk.prior(k).log_w)) for k in range(3)] == pytest.approx([1 / 2, 1 / 3, 1 / 4])
