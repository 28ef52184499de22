"""What a file holds of a stream: its trees, which share their frames, and a growth that is under way."""

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from coverwalk.files.schema import Object, Whole, require, stored
from coverwalk.forest.check import check_tree
from coverwalk.forest.growth import Growth
from coverwalk.forest.members import FittedTree, Frame, Member, Part
from coverwalk.forest.schedule import NEVER, Job, Pace
from coverwalk.forest.tree import Tree

if TYPE_CHECKING:
    from coverwalk.forest.stream import ForestStream


@stored()
class StoredMember(NamedTuple):
    """A member in a file, where trees share their frames."""

    frame: Annotated[int, Whole(0, "F - 1")]
    tree: Annotated[Tree, Object(Tree, p="p")]
    fitted: Annotated[FittedTree, Object(FittedTree, N="tree.N", p="p")]
    part: Annotated[Part, Object(Part)]
    degree: Annotated[int, Whole(0, 2)]


def stream_state(stream: "ForestStream") -> dict[str, Any]:
    """The fields of a stream, without what is made again."""
    state = {name: value for name, value in vars(stream).items() if name not in ("table", "growing", "pace", "filled")}
    kept = stream.n_rows - stream.first_row if stream.next_event < NEVER else 0
    state["X"], state["y"] = stream.X[:kept], stream.y[:kept]
    base, grown = stream.growing.result()[:2] if stream.growing else (None, [])  # does not depend on when
    frames: list[Frame] = []
    saved = []
    for one in [*stream.members, *grown]:
        if not any(one.frame is frame for frame in frames):
            frames.append(one.frame)
        place = next(i for i, frame in enumerate(frames) if one.frame is frame)
        saved.append(StoredMember(place, *one[1:5]))
    state["members"], state["frames"] = saved[: len(stream.members)], frames
    state["grown"] = saved[len(stream.members) :]
    state["grown_base"] = base if base is not stream.base else None
    return state


def restored_state(state: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a stream, from what `stream_state` made of them."""
    state = dict(state)
    frames, grown, base = (state.pop(name) for name in ("frames", "grown", "grown_base"))

    def member(one: StoredMember) -> Member:
        return Member(frames[one.frame], *one[1:])

    growing = None
    if grown:
        done = Growth(base or state["base"], [member(one) for one in grown], len(grown) > 1)  # of few trees, never all
        growing = Job(lambda: done, awaited=True)
    made = {"growing": growing, "pace": Pace(), "filled": [len(state["y"])]}
    return state | made | {"members": [member(one) for one in state["members"]]}


def check_stream(state: Any) -> None:
    """Members that a stream could have grown, and rows that it could have kept."""
    n_rows, K = int(state.learned[0]), state.settings.forest.n_trees
    require("rows", state.first_row <= n_rows < state.next_event)
    require("rows", len(state.y) == (n_rows - state.first_row if state.next_event < NEVER else 0))
    require("members", bool(state.members) == (state.base is not None) == (n_rows > 0))
    require("base", state.base is None or len(state.members) == state.base.settings.n_trees == K)
    require("categories", len(state.categories) <= len(state.names))
    require("a growth", len(state.grown) in ((0, 1, K) if state.grown_base is None else (1, K)))
    require("a growth", state.grown_base is None or state.grown_base.settings.n_trees == K)
    for member in [*state.members, *state.grown]:
        frame = state.frames[member.frame]
        n_categories = np.array(frame.n_categories or (0,) * len(state.names), np.int64)
        require("categorical", (n_categories > 0) <= state.categorical)
        require("trend", not member.part.smooth or frame.trend is not None)
        require("weight", len(member.fitted.records.weight) == 1)
        require("inverse", len(member.fitted.learned.inverse) == len(member.fitted.records.mean))
        check_tree(member.tree, member.fitted, member.degree, n_categories)
