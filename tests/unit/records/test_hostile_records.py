"""A record, calibration or table that is accepted can be used by every later stage; any other is
one line of error.
"""

import copy
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_report.commands.tensorboard_logs import write_tensorboard_logs
from gpu_report.errors import RecordError
from gpu_report.records.calibration import CALIBRATION_FILE, Calibration
from gpu_report.records.record import RECORD_FILE, Record
from gpu_report.study.study import Study, load_study
from gpu_report.tables.bundle import rows_of
from gpu_report.writing.latex import newest_measurement
from tests.factories import CONFIG, make_calibration, make_records, make_tables
from tests.report.synthetic import render_machines, results_of

ODD_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 10**30, 10**400),
    *(-1e15, 5e-324, 1e-300, 0.1, 1e15, 1e300, float("nan"), float("inf"), -float("inf")),
    *("", "17", "x" * 20_000, "\u0000\x1b[2J\u202e", "\ud800", "\\input{/etc/passwd}", "$%_^{}~#&"),
    *(
        ".",
        "../../x",
        "/etc/passwd",
        "a/b",
        "2026-05-04",
        "9999-12-31T23:59:59Z",
        "2026-13-01T00:00:00Z",
    ),
    *([], [[1], {}], ["a"], [1.0] * 3, {}, {"a": 1}),
    *("cpu", "cuda:7", "oom", "failed", "skipped", "unet-64px-cpu-b8-w0-fp32-e3x6"),
)
Place = tuple[str | int, ...]


@cache
def small_study() -> Study:
    config = yaml.safe_load(CONFIG.with_name("ci.yaml").read_text("utf-8"))
    config["devices"] = "auto"
    config["experiments"] = {name: config["experiments"][name] for name in ("device", "batch_size")}
    return load_study(config, devices=("cpu", "cuda"))


@cache
def sound() -> dict[str, Any]:
    """A record of a GPU and a calibration, as the values of their JSON files, by name."""
    record = next(each for each in make_records(small_study()) if "cuda" in each.variant)
    return {"record": record.model_dump(), "calibration": make_calibration(linked=2).model_dump()}


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Every place in the values; of a list the first two."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value[:2])
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        yield (*at, key)
        yield from places(inner, (*at, key))


@st.composite
def altered(draw: st.DrawFn, name: str) -> bytes:
    values = copy.deepcopy(sound()[name])
    for _ in range(draw(st.integers(1, 3))):
        *outer, last = draw(st.sampled_from(list(places(values))))
        holder = values
        for key in outer:
            holder = holder[key]
        kept = holder[last]
        if isinstance(kept, float) and draw(st.booleans()):
            holder[last] = kept * draw(st.sampled_from([0.0, 1e-12, 0.5, 3.0, 1e6, 1e12]))
        elif isinstance(kept, list) and draw(st.booleans()):
            holder[last] = kept * draw(st.integers(0, 3))
        elif isinstance(holder, dict) and draw(st.integers(0, 9)) == 0:
            del holder[last]
        else:
            holder[last] = copy.deepcopy(draw(st.sampled_from(ODD_VALUES)))
    return json.dumps(values).encode()


def use(record: Record, calibration: Calibration, folder: Path) -> None:
    """What the later stages make of it, beside the sound records of the study."""
    records = [
        record if each.variant == record.variant else each for each in make_records(small_study())
    ]
    tables = make_tables(small_study(), records, calibration=calibration)
    files = render_machines(
        small_study(), [results_of(small_study(), records=records, tables=tables)]
    )
    for text in files.values():
        assert not set(text) & {"\x00", "\x1b", "\u202e"}
    write_tensorboard_logs(records, {}, folder / "logs")
    assert newest_measurement(rows_of(tables.variants)).timestamp() > 0


def is_one_line(error: RecordError) -> bool:
    return "\n" not in str(error) and len(str(error)) < 1000


@pytest.mark.slow
@settings(suppress_health_check=list(HealthCheck))
@given(content=altered("record"))
def test_a_record_is_refused_in_one_line_or_every_stage_can_use_it(
    tmp_path: Path, content: bytes
) -> None:
    try:
        record = RECORD_FILE.parse(content, where="record.json")
    except RecordError as error:
        assert is_one_line(error)  # noqa: PT017 -- refusing is one of two good answers
        return
    use(record, make_calibration(), tmp_path)


@pytest.mark.slow
@settings(suppress_health_check=list(HealthCheck))
@given(content=altered("calibration"))
def test_a_calibration_is_refused_in_one_line_or_every_stage_can_use_it(
    tmp_path: Path, content: bytes
) -> None:
    try:
        calibration = CALIBRATION_FILE.parse(content, where="calibration.json")
    except RecordError as error:
        assert is_one_line(error)  # noqa: PT017 -- refusing is one of two good answers
        return
    use(Record.model_validate(sound()["record"]), calibration, tmp_path)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("profile", "trace_file"), "/etc/passwd", "profile.trace_file: String should match"),
        (
            ("repetitions", 0, "epochs", 1, "step_times_ms", 0),
            float("inf"),
            "should be a finite number",
        ),
        (("repetitions", 0, "started_at"), "yesterday", "use a time in UTC"),
        (("provenance", "measured_at"), "2026-02-30T00:00:00Z", "day is out of range"),
        (("measurement", "protocol"), {}, "measurement.protocol.version: Field required"),
        (("workload", "title"), "half \ud800 a character", "is not whole JSON"),
        (("variant",), "../elsewhere", "is not a configuration's name"),
        (("machine",), "../elsewhere", "machine: String should match"),
    ],
)
def test_what_no_stage_can_use_is_refused(place: Place, value: Any, message: str) -> None:
    values = copy.deepcopy(sound()["record"])
    holder = values
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value

    with pytest.raises(RecordError, match=message):
        RECORD_FILE.parse(json.dumps(values).encode(), where="record.json")


def test_losses_of_a_training_that_diverged_are_kept() -> None:
    values = copy.deepcopy(sound()["record"])
    epoch = values["repetitions"][0]["epochs"][1]
    epoch["train_losses"][0], epoch["test_loss"] = float("nan"), float("inf")

    record = RECORD_FILE.parse(json.dumps(values).encode(), where="record.json")

    assert record.repetitions[0].epochs[1].test_loss == float("inf")


def test_an_error_message_of_any_length_and_with_half_characters_becomes_a_record() -> None:
    values = {**sound()["record"], "status": "failed", "reason": "lost \ud800 " + "word " * 100_000}

    record = Record.model_validate(values)

    assert len(record.reason) < 11_000
    assert RECORD_FILE.parse(record.model_dump_json().encode(), where="record.json") == record
