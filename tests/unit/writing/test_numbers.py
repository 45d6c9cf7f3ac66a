import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_report.errors import ReportError
from gpu_report.glossary import SHOWN
from gpu_report.printing.number_format import Quantity
from gpu_report.writing.numbers import (
    KeyedNumber,
    numbers_csv,
    numbers_of,
    numbers_of_tables,
    numbers_tex,
    read_numbers,
)
from gpu_report.writing.table import Text, table
from tests.factories import CONFIG, make_record, make_records, make_study
from tests.report.synthetic import results_of

ONE = KeyedNumber(
    key="a/b",
    quantity=Quantity(value="12,345.3", low="12,345.1", high="12,345.6", unit="%"),
    table="t.csv",
    run="cnn-cpu",
)


def found(
    *devices: str, failed: str = "", config: Mapping[str, Any] | None = None
) -> dict[str, KeyedNumber]:
    study = make_study(devices=devices, config=config)
    records = [
        make_record(r.variant, status="oom") if r.variant == failed else r
        for r in make_records(study)
    ]
    machine = results_of(study, records=records)
    return {number.key.removeprefix("xeon-2c/"): number for number in numbers_of(machine)}


def test_the_short_keys_name_workload_device_and_metric() -> None:
    keys = found("cpu", "cuda")

    assert keys["cnn/cuda/speedup"].quantity.plain().startswith("12.00×")
    assert keys["cnn/cpu/step_time"].quantity.unit in ("ms", "s")


def test_a_model_in_several_sizes_has_its_size_in_the_short_keys() -> None:
    config = yaml.safe_load(CONFIG.read_text("utf-8"))
    config["experiments"]["device"]["grid"][0].pop("without_accelerator")
    keys = found("cpu", "cuda", config=config)

    sizes = {
        key.split("/")[0]
        for key in keys
        if key.startswith("unet-") and key.endswith("px/cuda/speedup")
    }
    assert sizes == {"unet-64px", "unet-128px"}
    assert "unet/cuda/speedup" not in keys


def test_every_variant_and_every_row_of_an_experiment_has_its_keys_with_table_and_run() -> None:
    keys = found("cpu")

    of_variant = keys["cnn-medium-cpu-b64-w0-fp32-e3/throughput"]
    assert of_variant.table.endswith("tables/variants.csv")
    assert of_variant.run == "cnn-medium-cpu-b64-w0-fp32-e3"
    assert any(re.fullmatch(r"batch_size/[a-z0-9_-]+/64/speedup", key) for key in keys)
    assert keys["study/variants"].quantity.plain() == "14"


def test_what_was_not_measured_has_no_key() -> None:
    failed = "cnn-medium-cpu-b16-w0-fp32-e3"

    keys = found("cpu", failed=failed)

    assert f"{failed}/throughput" not in keys
    assert not any(number.quantity.plain() == "not measured" for number in keys.values())
    assert keys["study/measured"].quantity.plain() == "13"


def test_a_table_gives_its_numbers_unless_they_are_known_by_other_keys() -> None:
    (block,) = table(
        [{"variant": "a", "power_w": 2.0}],
        name="m/t",
        caption="T",
        columns=[Text("variant"), SHOWN["power"]],
    )

    (first, *_) = numbers_of_tables([block], known=[])

    assert (first.key, first.run, first.table) == ("m/t/a/power", "a", block.source)
    assert numbers_of_tables([block], known=["m/t"]) == []


def test_the_file_defines_each_number_with_its_interval_and_unit() -> None:
    text = numbers_tex(
        [ONE, KeyedNumber(key="c", quantity=Quantity(value="4.5", unit="µs"), table="")],
        machine="m_1",
    )

    assert r"\gpurepmachine{m_1}" in text
    assert r"\gpurepnumber{a/b}{12345.3}{}{12345.1}{12345.6}{\%}" in text
    assert r"\gpurepnumber{c}{4.5}{}{}{}{\gpurepmicro s}" in text


def test_of_two_numbers_with_one_key_the_first_counts() -> None:
    other = KeyedNumber(key="a/b", quantity=Quantity(value="7"), table="")

    assert numbers_tex([ONE, other], machine="m").count("{a/b}") == 1
    assert list(csv.reader(io.StringIO(numbers_csv([ONE, other]))))[1:] == [
        [
            "a/b",
            "12,345.3",
            "12,345.1",
            "12,345.6",
            "%",
            "12,345.3 % (12,345.1 to 12,345.6)",
            "t.csv",
            "cnn-cpu",
        ]
    ]


def test_the_list_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "numbers.csv").write_text(numbers_csv([ONE]), encoding="utf-8")

    (number,) = read_numbers(tmp_path / "numbers.csv")

    assert (number.key, number.value, number.run) == ("a/b", "12,345.3", "cnn-cpu")


def test_a_list_that_is_missing_cut_short_or_of_other_columns_says_what_to_do(
    tmp_path: Path,
) -> None:
    (tmp_path / "old.csv").write_text("key,text\n", encoding="utf-8")
    (tmp_path / "cut.csv").write_text(numbers_csv([ONE])[:-30], encoding="utf-8")

    with pytest.raises(ReportError, match="make report"):
        read_numbers(tmp_path / "none.csv")
    for name in ("old.csv", "cut.csv"):
        with pytest.raises(ReportError, match="make the report again"):
            read_numbers(tmp_path / name)


def test_keys_hold_only_what_the_name_of_a_macro_may() -> None:
    assert all(re.fullmatch(r"[A-Za-z0-9_./+-]+", key) for key in found("cpu", "cuda"))
