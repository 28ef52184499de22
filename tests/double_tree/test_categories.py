"""DoubleTree with categories and missing values."""

import pickle

import numpy as np
import pytest

from coverwalk import DoubleTree, load
from tests.test_mixed_inputs import table

FRAME, Y = table(1200)
ROWS = FRAME.to_numpy(dtype=object)


@pytest.mark.parametrize("walk", ["coarsen", "refine"])
def test_categories_and_missing_values(walk, tmp_path):
    def new(**parameters):
        return DoubleTree(walk=walk, **parameters)

    model, chunks, singles = new(), new(), new(categorical_features=[1])
    said = model.prequential(FRAME, Y)
    parts = [chunks.prequential(FRAME[s : s + 83], Y[s : s + 83]) for s in range(0, len(Y), 83)]
    np.testing.assert_array_equal(np.concatenate(parts), said)
    np.testing.assert_array_equal([singles.learn_one(x, y) for x, y in zip(ROWS, Y)], said)
    fitted = new().fit(FRAME, Y)
    np.testing.assert_array_equal(fitted.logpdf(FRAME, Y), model.logpdf(FRAME, Y))
    assert said[600:].mean() > new().prequential(FRAME[["east", "north"]].fillna(0.0), Y)[600:].mean()
    np.testing.assert_allclose(model.predict_dist(FRAME[:9]).logpdf(Y[:9]), model.logpdf(FRAME[:9], Y[:9]), atol=1e-9)
    assert np.isfinite(model.predict(FRAME[:2].assign(city="nowhere", east=np.nan))).all()
    model.save(tmp_path / "m.cw")
    again = load(tmp_path / "m.cw")
    np.testing.assert_array_equal(again.prequential(FRAME[:99], Y[:99]), model.prequential(FRAME[:99], Y[:99]))


def test_boxes_do_not_see_what_is_missing():
    late = FRAME[["east", "north"]].fillna(0.5).to_numpy().copy()
    late[700:] = FRAME[["east", "north"]][700:]
    late[5, 0] = late[0, 0] = np.nan
    one, other = DoubleTree(), DoubleTree()
    np.testing.assert_array_equal(one.prequential(late, Y), [other.learn_one(x, y) for x, y in zip(late, Y)])
    X, outputs = one._engine.rows
    np.testing.assert_array_equal(X, late)
    np.testing.assert_allclose(outputs[:, 0], Y, atol=1e-9)
    whole = np.where(np.isnan(late), 0.0, late)
    never = DoubleTree().partial_fit(whole, Y)
    twice = DoubleTree().partial_fit(whole, Y)
    twice._engine._take_missing(2)  # inputs that are 0 everywhere change nothing
    np.testing.assert_array_equal(twice.prequential(whole, Y), never.prequential(whole, Y))


def test_a_value_may_be_missing_in_the_first_row():
    """Then boxes are as wide as those of a model that is made again from its rows, with all its inputs at once."""
    rows = np.column_stack([np.arange(50.0), np.arange(50.0) % 7])
    rows[:9, 0] = np.nan
    model = DoubleTree(settle=0).partial_fit(rows, Y[:50])
    again = pickle.loads(pickle.dumps(model))
    one, other = (each._engine.state.xf[: each.n_contexts_] for each in (model, again))
    np.testing.assert_array_equal(one, other)


def test_refuses_and_loses_nothing():
    model = DoubleTree().partial_fit(FRAME[:100], Y[:100])
    before = pickle.dumps(model)
    new = FRAME[:3].assign(city="new")
    with pytest.raises(ValueError, match="infinity in row 1, column 0"):
        model.partial_fit(new.assign(east=[0.0, np.inf, 0.0]), Y[:3])
    with pytest.raises(ValueError, match="same number of rows"):
        model.partial_fit(new, Y[:2])
    with pytest.raises(ValueError, match="must be finite"):
        model.learn_one([0.0, "new", np.inf], 0.0)
    assert pickle.dumps(model) == before
    fresh = DoubleTree()
    with pytest.raises(ValueError, match="infinity"):
        fresh.partial_fit(new.assign(east=np.inf), Y[:3])
    assert not hasattr(fresh, "n_features_in_")
