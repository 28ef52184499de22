"""Puts the numbers of ``results/uci.json`` into the README, the page of benchmarks and the plot.

    python benchmarks/uci_table.py [--results FILE] [--root FOLDER]

The best method of each set is bold; for NLL only where y is continuous. Where y is rounded, a density can rise without
limit at values that repeat, so that NLLs of different methods cannot be compared there. CRPS can.
"""

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "uci.json"
BEGIN, END = "<!-- uci.json: begin -->", "<!-- uci.json: end -->"
HEADLINE = "<!-- uci.json: headline -->"
TABLES = (
    ("NLL, nats", "nll", "{:.2f}"),
    ("CRPS", "crps", "{:.3g}"),
    ("RMSE", "rmse", "{:.3g}"),
    ("fit, CPU seconds", "fit_s", "{:.2f}"),
    ("predict, CPU µs per row", "predict_us", "{:.0f}"),
)


def table(told: dict[str, Any], title: str, key: str, form: str) -> list[str]:
    """One number for each method and set; none where nothing was measured."""
    results = told["results"]
    sets = list(next(iter(results.values())))
    if not any(key in results[method][name] for method in results for name in sets):
        return []
    lines = [f"| {title} | {' | '.join(sets)} |", "|---" * (len(sets) + 1) + "|"]
    best = {name: min(r[name][key] for r in results.values() if key in r.get(name, {})) for name in sets}
    for method, label in told["methods"].items():
        cells = []
        for name in sets:
            number = results[method].get(name, {}).get(key)
            text = "–" if number is None else form.format(number)
            compares = key != "nll" or name not in told["rounded"]
            cells.append(f"**{text}**" if compares and number == best[name] else text)
        lines.append(f"| {'**coverwalk**' if method == 'coverwalk' else label} | {' | '.join(cells)} |")
    return [*lines, ""]


def markdown(told: dict[str, Any], keys: tuple[str, ...]) -> str:
    """Tables of these numbers, with what they were measured by."""
    rounded = ", ".join(told["rounded"])
    note = (
        f"Version {told['version']}, means of {told['splits']} splits. In `{rounded}` y is rounded: NLLs of different "
        "methods cannot be compared there, so none is bold."
    )
    tables = [line for title, key, form in TABLES if key in keys for line in table(told, title, key, form)]
    return "\n".join([note, "", *tables])


def headline(told: dict[str, Any]) -> str:
    """On how many sets with continuous y ours has the lowest NLL, and by how much in the median."""
    results = told["results"]
    sets = [name for name in results["coverwalk"] if name not in told["rounded"]]
    gaps = [
        min(results[peer][name]["nll"] for peer in results if peer != "coverwalk") - results["coverwalk"][name]["nll"]
        for name in sets
    ]
    won = f"{sum(gap > 0 for gap in gaps)} of {len(sets)}"
    return (
        f"- The lowest log loss of {len(results)} methods on {won} public tables with continuous y. The median lead "
        f"over the best other method is {median(gaps):.2f} nats ([comparison](#compared))."
    )


def replaced(page: str, told: dict[str, Any], keys: tuple[str, ...]) -> str:
    """The page with the tables between their marks, and the line below the mark of the headline."""
    head, rest = page.split(BEGIN)
    page = f"{head}{BEGIN}\n{markdown(told, keys)}\n{END}{rest.split(END)[1]}"
    if HEADLINE in page:
        head, rest = page.split(f"{HEADLINE}\n")
        after = rest.split("\n", 1)[1] if rest.startswith("- The lowest log loss") else rest
        page = f"{head}{HEADLINE}\n{headline(told)}\n{after}"
    return page


PAGES = {"README.md": ("nll", "crps"), "docs/guide/benchmarks.md": ("nll", "crps", "rmse", "fit_s", "predict_us")}


def draw(told: dict[str, Any], path: Path) -> None:
    """Losses of each set on a line of their own, ours marked; sets with rounded y are left out."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    results = told["results"]
    sets = [name for name in next(iter(results.values())) if name not in told["rounded"]]
    figure, axes = plt.subplots(1, len(sets), figsize=(1.7 * len(sets), 3.2), layout="constrained", squeeze=False)
    for axis, name in zip(axes[0], sets):
        for k, (method, label) in enumerate(told["methods"].items()):
            style = {"marker": "D", "s": 60} if method == "coverwalk" else {"marker": "o", "s": 30}
            axis.scatter([0], [results[method][name]["nll"]], color=f"C{k}", label=label, zorder=3, **style)
        axis.set_title(name)
        axis.set_xticks([])
        axis.spines[["top", "right", "bottom"]].set_visible(False)
        axis.grid(axis="y", alpha=0.3)
    axes[0, 0].set_ylabel("NLL of test rows, nats\n(lower is better)")
    figure.suptitle(f"Log loss of {len(results)} methods on {len(sets)} tables with continuous y", fontsize=11)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--root", type=Path, default=ROOT, help="of the pages to write")
    arguments = parser.parse_args()
    told = json.loads(arguments.results.read_text())
    for name, keys in PAGES.items():
        page = arguments.root / name
        page.write_text(replaced(page.read_text(), told, keys))
    draw(told, arguments.root / "docs" / "img" / "uci.png")


if __name__ == "__main__":
    main()
