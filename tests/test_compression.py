"""The arithmetic coder is lossless, short, and says so when a file is not its own."""

import numpy as np
import pytest

from coverwalk import SequenceModel
from coverwalk.cli import main
from coverwalk.sequences.compression import compress, decompress
from coverwalk.sequences.compressors import compressors

RNG = np.random.default_rng(0)
WORDS = ["it", "was", "the", "best", "of", "times", "worst", "age", "wisdom", "foolishness", "epoch", "belief"]
TEXT = " ".join(RNG.choice(WORDS, 4000)).encode()
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
    assert (
        ideal <= len(packed) <= 1.0005 * ideal + 9
    )  # two bytes of name, three of length, three of check sum, one rounded up


def test_truncated_and_foreign_files_are_refused():
    packed = compress(TEXT)
    for end in (0, 1, 2, 3, 6, 8, 20, len(packed) // 2, len(packed) - 1):
        with pytest.raises(ValueError, match=r"truncated or damaged|not made by"):
            decompress(packed[:end])
    with pytest.raises(ValueError, match="truncated or damaged"):
        decompress(packed[:40] + bytes([packed[40] ^ 1]) + packed[41:])
    with pytest.raises(ValueError, match="not made by"):
        decompress(b"PK\x03\x04 something else")
    with pytest.raises(ValueError, match="promises"):
        decompress(packed[:2] + b"\xff" * 6 + b"\x01" + packed[5:])


def test_command_line_round_trip(tmp_path, capsys):
    original = tmp_path / "speech.txt"
    original.write_bytes(TEXT)
    assert main(["compress", str(original)]) == 0
    packed = tmp_path / "speech.txt.cw"
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
    assert sorted(path.name for path in tmp_path.iterdir()) == ["picture.png", "speech.txt", "speech.txt.cw"]


def test_bits_prints_ours_beside_the_others(tmp_path, capsys):
    for name, data in (("a", TEXT), ("b", TEXT[:3000])):
        (tmp_path / name).write_bytes(data)
    assert main(["bits", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["file", "bytes", "coverwalk", *compressors(), "memory"]
    ours = SequenceModel(256).prequential(TEXT, unit="bits").mean()
    assert float(lines[1].split()[2]) == pytest.approx(ours, abs=1e-4)
    assert lines[3].startswith("mean")
    (tmp_path / "c").write_bytes(b"")
    assert main(["bits", str(tmp_path / "c")]) == 1
    assert "empty" in capsys.readouterr().err
