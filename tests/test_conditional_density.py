"""The estimator's contract: scikit-learn's own checks, frames of every kind, one or several outputs, hostile inputs."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from coverwalk import ConditionalDensity, JointDistribution


@parametrize_with_checks([ConditionalDensity(n_trees=4)])
def test_scikit_learn(estimator, check):
    check(estimator)
