"""One look for all figures: few colours, names at the lines, a light grid."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["BLUE", "GREY", "INK", "ORANGE", "TEAL", "figure", "name_line", "save"]

INK, BLUE, ORANGE, GREY, TEAL = "#1b2a41", "#2a6f97", "#e07a3f", "#8d99ae", "#2a9d8f"


def figure(rows: int, columns: int, width: float, height: float, **options: Any) -> "tuple[Figure, Any]":
    """Axes in a grid, drawn without a display."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ValueError("figures need matplotlib: pip install matplotlib") from error
    fig = Figure(figsize=(width, height), layout="constrained", dpi=150)
    axes = fig.subplots(rows, columns, squeeze=False, **options)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color(GREY)
        ax.tick_params(colors=INK, labelsize=8, length=3, color=GREY)
        ax.grid(True, which="major", color="#e6eaf0", linewidth=0.8)
        ax.set_axisbelow(True)
    return fig, axes


def name_line(ax: "Axes", x: float, y: float, text: str, color: str, dy: float = 6.0, ha: str = "right") -> None:
    """A line's name beside one of its points, in its colour: no legend to look up."""
    ax.annotate(text, (x, y), (0, dy), textcoords="offset points", color=color, fontsize=8.5, ha=ha, va="center")


def save(fig: "Figure", path: Path) -> Path:
    """Write the picture."""
    fig.savefig(path, facecolor="white")
    return path
