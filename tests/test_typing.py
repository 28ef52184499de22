"""A user's script runs, and is typed: mypy --strict and, where it is installed, pyright have nothing to say."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
SCRIPT = """
import numpy as np

from coverwalk import ConditionalDensity, ContextClassifier, Density, DoubleTree, SequenceModel, load
from coverwalk.evaluation import coverage, crps, log_loss

rng = np.random.default_rng(0)
X = rng.uniform(-1.0, 1.0, size=(200, 2))
y = X[:, 0] + 0.1 * rng.standard_normal(200)
model = ConditionalDensity(n_estimators=4, bounds=(None, 5)).fit(X[:150], y[:150])
dist = model.predict_dist(X[150:])
low, high = dist.interval(0.9)
width: float = float(np.mean(high - low))
scores = [log_loss(y[150:], dist), crps(y[150:], dist), coverage(y[150:], dist, 0.9)]
risk = model.exceedance(X[150:], 0.5).max()
frame = dist.marginal(0).to_frame(quantiles=[0.1, 0.9])
for row in dist[:3]:
    print(row.median(), row.contexts(top=2), row.entropy(), dist.rvs(3))
print(dist[0].mean(), model.calibrate(X[150:], y[150:]).prob(X[:3], 0.0, 1.0), model.explain(X[0]))
importance = model.importance(X[150:], y[150:]).importances_mean.tolist()
model.save("model.cover")
again = ConditionalDensity.load("model.cover").partial_fit(X[150:], y[150:])
log_p: float = again.learn_one(X[0], y[0])
stream = DoubleTree().fit(X, y).predict(X[:2])
classes = ContextClassifier().fit(X, y > 0).predict_proba(X[:2]).sum()
text: float = SequenceModel().fit(b"abracadabra").log_loss(b"abra")
density = Density().fit(X).score_samples(X[:2])
print(load("model.cover"), width + log_p + text, risk, scores, importance, frame)
"""
CHECKERS = {
    "mypy": ["mypy", "--strict", "--config-file=none.ini"],
    "pyright": ["pyright", "--pythonpath", sys.executable],
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "wrong.py").write_text(SCRIPT + "\nwrong: str = model.learn_one(X[0], y[0])\n")
    (tmp_path / "none.ini").write_text("[mypy]\n")
    return tmp_path


@pytest.mark.parametrize("checker", CHECKERS)
def test_types(checker, folder, monkeypatch):
    """One mistake is found, in the script that has it: types of the package are seen."""
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"{checker} is not installed")
    monkeypatch.setenv("MYPYPATH", str(SOURCE))
    command = [sys.executable, "-m", *CHECKERS[checker], "script.py", "wrong.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    mistakes = [line for line in done.stdout.splitlines() if "error:" in line]
    assert len(mistakes) == 1, done.stdout + done.stderr
    assert "wrong.py" in mistakes[0]
    assert '"str"' in mistakes[0]


def test_it_runs(folder):
    subprocess.run([sys.executable, "script.py"], check=True, capture_output=True, cwd=folder)
