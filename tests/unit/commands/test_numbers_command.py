from pathlib import Path

import pytest

from gpu_report.cli import main
from gpu_report.printing.number_format import Quantity
from gpu_report.writing.numbers import numbers_csv
from gpu_report.writing.table import KeyedNumber

NUMBERS = [
    KeyedNumber(
        key=f"h100/unet/{device}/{metric}",
        quantity=Quantity(value="12.3", low="12.1", high="12.5", unit="×"),
        table="results/tables/device.csv",
        run=f"unet-{device}",
    )
    for device in ("cpu", "cuda")
    for metric in ("speedup", "throughput")
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "numbers.csv").write_text(numbers_csv(NUMBERS), encoding="utf-8")
    return tmp_path


def test_the_numbers_are_listed_and_chosen_by_words(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["numbers", "--folder", str(folder)]) == 0
    header, first, *others = capsys.readouterr().out.splitlines()
    main(["numbers", "cuda", "speed", "--folder", str(folder)])
    chosen = capsys.readouterr().out.splitlines()[1:]

    assert header.split() == ["key", "number", "table", "run"]
    expected = "h100/unet/cpu/speedup 12.3× (12.1 to 12.5) results/tables/device.csv unet-cpu"
    assert " ".join(first.split()) == expected
    assert len(others) == 3
    assert [line.split()[0] for line in chosen] == ["h100/unet/cuda/speedup"]


@pytest.mark.parametrize(
    ("name", "told"),
    [("numbers.csv", "no key of the 4 numbers"), ("other.csv", "snakemake --cores 4")],
)
def test_an_unknown_key_is_named_and_for_a_missing_report_how_to_make_one(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, told: str
) -> None:
    (folder / "numbers.csv").rename(folder / name)

    assert main(["numbers", "unet/cuda/speedpu", "--folder", str(folder)]) == 2
    assert told in capsys.readouterr().err
