"""The arithmetic coder is lossless, short, and says so when a file is not its own."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coverwalk import SequenceModel, __version__
from coverwalk.cli import main
from coverwalk.datasets import data_folder
from coverwalk.sequences import container
from coverwalk.sequences.compression import compress, decompress
from coverwalk.sequences.compressors import compressors
from coverwalk.sequences.container import read_container, write_container

RNG = np.random.default_rng(0)
WORDS = ["it", "was", "the", "best", "of", "times", "worst", "age", "wisdom", "foolishness", "epoch", "belief"]
TEXT = " ".join(RNG.choice(WORDS, 4000)).encode()
HEADER = 3 + len(__version__) + 16 + 4  # format and writer; five numbers, the model's memory among them; check sum
FILES = {
    "empty": b"",
    "one byte": b"x",
    "one zero": b"\0",
    "zeros": bytes(5000),
    "ones": b"\xff" * 70_000,
    "text": TEXT,
    "noise": RNG.bytes(20_000),
    "records": np.cumsum(RNG.integers(-9, 10, 8000)).astype(">i4").tobytes(),
    "surprise": bytes(3000) + RNG.bytes(3000) + bytes(3000),
}


@pytest.mark.parametrize("data", FILES.values(), ids=FILES)
def test_round_trip_near_the_ideal_length(data):
    told = []
    packed = compress(data, progress=told.append)
    assert decompress(packed) == data
    assert sum(told) == len(data)
    ideal = SequenceModel(256).prequential(data, unit="bits").sum() / 8 if data else 0.0
    assert ideal <= len(packed) <= 1.0005 * ideal + HEADER + 1  # one rounded up


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.binary(max_size=2000), st.integers(0, 255), st.integers(0, 60_000))
def test_long_tails_of_any_byte_come_back(prefix, byte, tail):
    """After a learned prefix a run costs next to nothing and the code may end in any number of zeros."""
    data = prefix + bytes([byte]) * tail
    assert decompress(compress(data)) == data


@pytest.mark.parametrize("byte", [0, 1, 127, 128, 255])
def test_a_learned_page_with_a_blank_end_comes_back(byte):
    """The code of such a page ended in more zeros than the decoder would read past the end."""
    page = RNG.choice([0, 0, 0, 0, 255, 3], 30_000).astype(np.uint8).tobytes()
    data = page + bytes([byte]) * 200_000
    assert decompress(compress(data)) == data


def test_tails_of_every_byte_come_back():
    """A learned prefix, then a run of each of the 256 values; a code may end in any byte, any number of times."""
    for byte in range(256):
        data = TEXT[:700] + bytes([byte]) * 2000
        assert decompress(compress(data, effort=1)) == data


def test_a_long_run_of_zeros_is_next_to_nothing():
    data = bytes(300_000)
    packed = compress(data)
    assert len(packed) < 200
    assert decompress(packed) == data


@pytest.mark.parametrize("effort", [1, 2, 3])
def test_files_come_back(effort):
    """Every file of the benchmark's sequences, or the first 100,000 bytes of it."""
    try:
        folder = data_folder(needs="seq")
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    for path in sorted((folder / "seq").iterdir()):
        data = path.read_bytes()[:100_000]
        packed = compress(data, effort=effort, memory="16MB")
        assert decompress(packed) == data
        assert len(packed) < 0.6 * len(data)


def test_truncated_and_foreign_files_are_refused():
    packed = compress(TEXT)
    for end in (0, 1, 2, 3, 6, 8, 12, 20, len(packed) // 2, len(packed) - 1):
        with pytest.raises(ValueError, match=r"truncated or damaged|not made by"):
            decompress(packed[:end])
    with pytest.raises(ValueError, match="truncated or damaged"):
        decompress(packed[:40] + bytes([packed[40] ^ 1]) + packed[41:])
    with pytest.raises(ValueError, match="not made by"):
        decompress(b"PK\x03\x04 something else")
    for place in range(len(packed[:HEADER])):
        with pytest.raises(ValueError, match=r"damaged|not made by|written by"):
            decompress(packed[:place] + bytes([packed[place] ^ 1]) + packed[place + 1 :])
    with pytest.raises(ValueError, match="truncated or damaged"):
        decompress(packed + b"\0")
    parts = replace(read_container(packed), length=2**40, code=b"abc")
    with pytest.raises(ValueError, match="promises"):
        decompress(container._header(parts) + bytes(4) + b"abc")


def test_a_file_of_another_version_says_which():
    with pytest.raises(ValueError, match=r"written by coverwalk 0\.1\.0"):
        decompress(b"\xc7\x01\x05abcdefgh")
    with pytest.raises(ValueError, match=r"format 9"):
        decompress(b"\xc7\x09\x05abcdefgh")
    with pytest.raises(ValueError, match=r"coverwalk 7\.5\.1 with model 77.*decompress it with coverwalk 7\.5\.1"):
        decompress(write_container(b"abc", b"xyz", writer="7.5.1", model=77))


def test_command_line_round_trip(tmp_path, capsys):
    original = tmp_path / "speech.txt"
    original.write_bytes(TEXT)
    assert main(["compress", str(original)]) == 0
    packed = tmp_path / "speech.txt.cwz"
    assert packed.stat().st_size < len(TEXT) / 4
    assert main(["decompress", str(packed)]) == 1  # the original is still there
    assert "--force" in capsys.readouterr().err
    original.unlink()
    assert main(["decompress", str(packed)]) == 0
    assert original.read_bytes() == TEXT
    assert main(["compress", str(tmp_path / "nowhere")]) == 1
    packed.write_bytes(packed.read_bytes()[:-9])
    assert main(["decompress", "-f", str(packed)]) == 1
    assert "truncated" in capsys.readouterr().err
    assert original.read_bytes() == TEXT
    other = tmp_path / "picture.png"
    other.write_bytes(b"\x89PNG")
    assert main(["decompress", str(other)]) == 1
    assert main(["decompress", str(other), "-o", str(tmp_path / "out")]) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["picture.png", "speech.txt", "speech.txt.cwz"]


def test_bits_prints_ours_beside_the_others(tmp_path, capsys):
    once = RNG.integers(97, 123, 150_000, dtype=np.uint8)  # many contexts, more than a model's first tables hold
    long = once.tobytes() + np.where(RNG.random(150_000) < 0.2, once[::-1], once).tobytes()
    for name, data in (("a", long), ("b", TEXT[:3000])):
        (tmp_path / name).write_bytes(data)
    assert main(["bits", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["file", "bytes", "coverwalk", *compressors(), "memory", "kB/s"]
    ours = SequenceModel(256).prequential(long, unit="bits").mean()
    assert float(lines[1].split()[2]) == pytest.approx(ours, abs=1e-4)
    assert lines[3].startswith("mean")
    assert main(["bits", "--json", str(tmp_path / "b")]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["bytes"] == 3000
    assert facts["bits_per_byte"]["coverwalk"] == pytest.approx(float(lines[2].split()[2]), abs=1e-4)
    assert main(["compress", "--json", str(tmp_path / "b")]) == 0
    packed = json.loads(capsys.readouterr().out)
    assert packed["bytes"] == Path(packed["file"]).stat().st_size < packed["original_bytes"] == 3000
    (tmp_path / "c").write_bytes(b"")
    assert main(["bits", str(tmp_path / "c")]) == 1
    assert "empty" in capsys.readouterr().err
