from pathlib import Path

import pytest

from gpu_report.cli import main
from gpu_report.printing.number_format import Quantity
from gpu_report.writing.numbers import KeyedNumber, numbers_csv

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


def test_the_numbers_are_listed_one_a_line_with_value_table_and_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["numbers", "--folder", str(folder)]) == 0

    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["key", "number", "table", "run"]
    assert lines[0].split() == [
        *(
            "h100/unet/cpu/speedup",
            "12.3×",
            "(12.1",
            "to",
            "12.5)",
            "results/tables/device.csv",
            "unet-cpu",
        )
    ]
    assert len(lines) == 4


def test_words_choose_the_keys_that_hold_all_of_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["numbers", "cuda", "speed", "--folder", str(folder)])

    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == [
        "h100/unet/cuda/speedup"
    ]


def test_a_key_that_no_number_has_is_an_error_that_names_the_nearest(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["numbers", "unet/cuda/speedpu", "--folder", str(folder)]) == 2

    assert "nearest: h100/unet/cuda/speedup" in capsys.readouterr().err


def test_without_a_report_it_says_how_to_make_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["numbers", "--folder", str(tmp_path)]) == 2

    assert "make report" in capsys.readouterr().err
