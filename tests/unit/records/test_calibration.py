"""A calibration is written whole and read as it was written; a damaged one is refused with what to
do.
"""

import json
from pathlib import Path

import pytest

from gpu_report.errors import RecordError
from gpu_report.records.calibration import CALIBRATION_FILE, SCHEMA_VERSION
from tests.factories import make_calibration


def test_a_calibration_is_read_as_it_was_written(tmp_path: Path) -> None:
    calibration = make_calibration(linked=2)

    CALIBRATION_FILE.write(calibration, tmp_path / "new" / "calibration.json")

    assert CALIBRATION_FILE.read(tmp_path / "new" / "calibration.json") == calibration


def test_a_calibration_from_before_links_were_measured_is_read(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(make_calibration().model_dump(exclude={"link"})), "utf-8")

    assert CALIBRATION_FILE.read(path) == make_calibration()


@pytest.mark.parametrize(
    ("version", "action"), [(SCHEMA_VERSION + 1, "update gpu-report"), (None, "calibrate anew")]
)
def test_a_calibration_of_another_schema_is_refused(
    tmp_path: Path, version: int | None, action: str
) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(
        json.dumps({**make_calibration().model_dump(), "schema_version": version}), "utf-8"
    )

    with pytest.raises(RecordError, match=action):
        CALIBRATION_FILE.read(path)


def test_a_value_that_the_schema_forbids_is_named(tmp_path: Path) -> None:
    values = make_calibration().model_dump()
    values["ceilings"][0]["matrix_products"][0]["size"] = 0
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(values), "utf-8")

    with pytest.raises(
        RecordError, match=r"ceilings\.0\.matrix_products\.0\.size: .*greater than 0"
    ):
        CALIBRATION_FILE.read(path)
