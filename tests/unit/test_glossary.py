"""Every metric of the glossary is a number of a table, and says what it is."""

import pytest

from gpu_report.glossary import METRICS, PER_PROCESS, SHOWN, machine_words
from gpu_report.tables import STUDY_TABLES
from gpu_report.tables.experiments import EXPERIMENT
from gpu_report.tables.processes import process_values
from tests.factories import make_record

IN_NO_TABLE = {
    "training_time_s",
    "time_percent",
    "memory_percent",
    "category_speedup",
    "device_time_percent",
    "profiled_time_ms",
}
"""What the sources report, and no table of ours has by itself."""


def test_every_metric_is_a_column_of_a_table() -> None:
    columns = {column.name for table in (*STUDY_TABLES, EXPERIMENT) for column in table.columns}

    assert METRICS.keys() - IN_NO_TABLE <= columns


def test_every_metric_has_a_header_and_a_meaning_and_its_numbers_can_be_written() -> None:
    for column, metric in METRICS.items():
        assert metric.header, column
        assert metric.meaning, column
        assert metric.quantity({metric.column: 0.5}).is_measured, column


def test_what_every_process_has_is_computed_and_nothing_else() -> None:
    assert process_values(make_record("cnn-small-cuda-b64-w0-fp32-e3")).keys() == PER_PROCESS.keys()


def test_a_key_names_one_metric() -> None:
    assert len(SHOWN) == sum(bool(metric.key) for metric in METRICS.values())


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ("h100-80gb-x1-xeon-16c", "H100 80GB"),
        ("h100-80gb-x2-xeon-platinum-8481c-16c", "2 H100 80GB"),
        ("xeon-2c", "Xeon, 2 cores"),
        ("a name of my own", "a name of my own"),
    ],
)
def test_an_id_is_read_as_the_hardware_that_distinguishes_machines(
    machine: str, words: str
) -> None:
    assert machine_words(machine) == words
