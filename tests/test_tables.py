"""Tables that people have: stray quotes, typos among numbers, odd line ends, columns that are no numbers."""

import io
import time

import numpy as np
import polars
import pytest

from coverwalk.preparation.table import TableError
from coverwalk.preparation.tables import _records, open_table


def table(tmp_path, text, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return open_table(str(path))


def inputs(read, columns):
    """All rows, as `fit` reads them."""
    read.keep()
    return next(read.pieces(columns, read.text_columns(columns), []))[0]


def test_a_stray_quote_takes_linear_time():
    def seconds(n):
        lines = b'a,b\n1,"2\n' + b"1,2\n" * n
        start = time.process_time()
        assert _records(io.BytesIO(lines), 8) == lines
        return time.process_time() - start

    seconds(1000)
    assert seconds(400_000) < 40 * max(seconds(40_000), 0.005)  # 100 times if it were quadratic


@pytest.mark.parametrize("typo", ["1,000", "5%", "2024-01-31", "abc"])
def test_a_typo_among_numbers_is_refused_with_its_row_and_value(tmp_path, typo):
    rows = [str(i) for i in range(30)]
    rows[17] = f'"{typo}"'
    with pytest.raises(TableError, match=f"'{typo}' in column 'x', row 18, where 29 of 30 entries are numbers"):
        inputs(table(tmp_path, "x,y\n" + "".join(f"{x},1\n" for x in rows)), ["x"])
    with pytest.raises(TableError, match="row 18"):
        table(tmp_path, "x,y\n" + "".join(f"{x},1\n" for x in rows)).text_columns(["x"])


def test_columns_of_names_that_look_like_numbers_are_told(tmp_path, capsys):
    text = "price,day,name,half\n" + '"1,000",2024-01-31,a,1\n"2,000",2024-02-28,b,x\n' * 5
    frame = inputs(table(tmp_path, text), ["price", "day", "name", "half"])
    assert all(kind == polars.String for kind in frame.dtypes)
    said = capsys.readouterr().err
    assert all(f"column {name!r}" in said for name in ("price", "day", "half"))
    assert "'name'" not in said


def test_quotes_in_a_header_are_part_of_the_name(tmp_path):
    read = table(tmp_path, '"the ""x""",y\n1,2\n3,4\n')
    assert read.columns == ['the "x"', "y"]
    assert inputs(read, ['the "x"']).rows() == [(1.0,), (3.0,)]


def test_lines_that_end_in_cr_alone_are_refused(tmp_path):
    with pytest.raises(TableError, match="CR alone"):
        table(tmp_path, b"x,y\r1,2\r3,4\r")
    assert inputs(table(tmp_path, b"x,y\r\n1,2\r\n3,4\r\n"), ["x", "y"]).rows() == [(1.0, 2.0), (3.0, 4.0)]


@pytest.mark.parametrize("entry", [[1, 2], {"a": 1}, b"ab"])
def test_nested_and_binary_columns_are_refused_by_name(tmp_path, entry):
    path = str(tmp_path / "t.parquet")
    polars.DataFrame({"x": [1.0, 2.0], "odd": [entry, entry]}).write_parquet(path)
    with pytest.raises(TableError, match="column 'odd'; expected numbers or text"):
        inputs(open_table(path), ["x", "odd"])
    assert [frame.rows() for frame, _, _ in open_table(path).pieces(["x"], [], [])] == [[(1.0,), (2.0,)]]


def test_the_labels_of_a_frames_rows_are_no_input(tmp_path):
    path = str(tmp_path / "t.parquet")
    frame = polars.DataFrame({"x": [1.0, 2.0], "__index_level_0__": [7, 8]})
    frame.write_parquet(path)
    assert open_table(path).columns == ["x"]
    assert np.array_equal(inputs(open_table(path), ["x"]).to_numpy(), [[1.0], [2.0]])


def test_names_of_numbers_are_read_alike_by_fit_and_by_all_else(tmp_path):
    path = str(tmp_path / "t.parquet")
    kinds = {"x": polars.Series(["30", "20", None], dtype=polars.Categorical), "c": ["NA", "a", "b"]}
    polars.DataFrame(kinds).with_columns(polars.col("c").cast(polars.Categorical)).write_parquet(path)
    assert inputs(open_table(path), ["x", "c"]).rows()[:2] == [(30.0, None), (20.0, "a")]
    assert open_table(path).numbers(kinds["x"], 0, with_missing=True).tolist()[:2] == [30.0, 20.0]
