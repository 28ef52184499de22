"""``coverwalk fit``: learn the distribution of some columns given the others."""

import argparse
import os

HELP = "learn the distribution of one or more columns given the others"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Data, targets, and where the model goes."""
    parser.add_argument("data", help="CSV or Parquet file; - for CSV from standard input")
    parser.add_argument(
        "--target", action="append", required=True, metavar="COLUMN", help="what to predict; may be repeated"
    )
    parser.add_argument(
        "--drop", action="append", default=[], metavar="COLUMN", help="leave a column out; may be repeated"
    )
    parser.add_argument(
        "--out", metavar="FILE", help="the model file; the data's name with the ending .cw if not given"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the candidate cuts (default: 0)")
    parser.add_argument(
        "--trees", type=int, default=None, help="trees in the forest (default: as many as the rows want)"
    )
    parser.add_argument("--jobs", type=int, default=None, help="threads; -1 for all cores (default: 1)")


def run(arguments: argparse.Namespace) -> None:
    """Read the table, fit, save."""
    from coverwalk import ConditionalDensity
    from coverwalk.commands._models import size
    from coverwalk.tables import TableError, listed, open_table

    table = open_table(arguments.data)
    targets, out = list(dict.fromkeys(arguments.target)), _out(arguments)
    left_out = {*targets, *arguments.drop}
    inputs = [column for column in table.columns if column not in left_out]
    if not inputs:
        raise TableError(f"{table.name} has no column besides {', '.join(sorted(left_out))}: nothing to predict from")
    if not os.path.isdir(os.path.dirname(os.path.abspath(out))):
        raise TableError(f"there is no folder {os.path.dirname(out)} for the model {out}")
    unknown = left_out - set(table.columns)
    if unknown:
        raise TableError(f"{table.name} has no column {listed(sorted(unknown))}; it has {listed(table.columns)}")
    import polars  # there, since the table could be opened

    rows = table.read(inputs + targets)
    X = polars.DataFrame(rows[:, : len(inputs)], schema=inputs, orient="row")
    Y = rows[:, len(inputs) :]
    model = ConditionalDensity(arguments.trees, n_jobs=arguments.jobs, random_state=arguments.seed)
    model.fit(X, Y[:, 0] if len(targets) == 1 else Y)
    model.target_names_ = targets
    model.save(out)
    given = f"{len(inputs)} column{'s' * (len(inputs) > 1)}"
    print(
        f"{', '.join(targets)} given {given}, learned from {len(rows)} rows; wrote {out} ({size(os.path.getsize(out))})"
    )


def _out(arguments: argparse.Namespace) -> str:
    if arguments.out:
        return str(arguments.out)
    return "model.cw" if arguments.data == "-" else os.path.splitext(arguments.data)[0] + ".cw"
