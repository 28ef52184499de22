"""C: which contexts hold x, from coarse to fine."""

from coverwalk.covers.boxes import ChoiceBoxes, DyadicBoxes, ShiftedGrids
from coverwalk.covers.kdtree import KDTree
from coverwalk.covers.metric import CoverTree
from coverwalk.covers.suffix import SuffixTree

__all__ = ["ChoiceBoxes", "CoverTree", "DyadicBoxes", "KDTree", "ShiftedGrids", "SuffixTree"]
