import re

from gpu_report.number_format import Quantity
from gpu_report.writing.numbers import numbers, numbers_tex
from gpu_report.writing.rows import rows_of
from tests.factories import make_record, make_records, make_study, make_tables


def found(*devices: str, failed: str = "") -> dict[str, Quantity]:
    study = make_study(devices=devices)
    records = [make_record(r.variant, status="oom") if r.variant == failed else r for r in make_records(study)]
    tables = make_tables(study, records)
    experiments = {name: rows_of(frame) for name, frame in tables.experiments.items()}
    axes = {experiment.name: experiment.axis for experiment in study.experiments}
    found = numbers("xeon-2c", rows_of(tables.variants), experiments, axes)
    assert all(key.startswith("xeon-2c/") for key in found)
    return {key.removeprefix("xeon-2c/"): number for key, number in found.items()}


def test_the_short_keys_name_workload_device_and_metric() -> None:
    keys = found("cpu", "cuda")

    assert keys["cnn/cuda/speedup"].plain().startswith("12.00×")
    assert keys["cnn/cpu/step_time"].unit in ("ms", "s")


def test_every_variant_and_every_row_of_an_experiment_has_its_keys() -> None:
    keys = found("cpu")

    assert "cnn-medium-cpu-b64-w0-fp32-e3/throughput" in keys
    assert any(re.fullmatch(r"batch_size/[a-z0-9_-]+/1024/speedup", key) for key in keys)
    assert keys["study/variants"].plain() == "12"


def test_what_was_not_measured_has_no_key() -> None:
    failed = "cnn-medium-cpu-b1024-w0-fp32-e3"

    keys = found("cpu", failed=failed)

    assert f"{failed}/throughput" not in keys
    assert not any(number.plain() == "not measured" for number in keys.values())
    assert keys["study/measured"].plain() == "11"


def test_the_file_defines_each_number_with_and_without_its_unit() -> None:
    text = numbers_tex({"a/b": Quantity(value="12.3", low="12.1", high="12.5", unit="%")})

    assert r"\gpurepnumber{a/b}{12.3\,\% (12.1 to 12.5)}" in text
    assert r"\gpurepnumber{a/b/value}{12.3}" in text


def test_keys_hold_only_what_the_name_of_a_macro_may() -> None:
    assert all(re.fullmatch(r"[A-Za-z0-9_./+-]+", key) for key in found("cpu", "cuda"))
