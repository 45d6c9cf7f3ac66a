"""Records and calibrations that differ from plausible ones in what a test is about."""

from collections.abc import Iterable, Mapping
from typing import Any

from gpu_report.records.calibration import Calibration
from gpu_report.records.record import Record
from tests.factories import make_calibration, make_record


def with_repetitions(record: Record, changes: Iterable[Mapping[str, Any]]) -> Record:
    """Each repetition with its changes."""
    pairs = zip(record.repetitions, changes, strict=True)
    repetitions = [each.model_copy(update=dict(values)) for each, values in pairs]
    return record.model_copy(update={"repetitions": repetitions})


def with_measurement(record: Record, part: str, **values: Any) -> Record:
    """A record measured with another protocol or workload."""
    measurement: dict[str, Any] = {**record.measurement}
    return record.model_copy(
        update={"measurement": measurement | {part: measurement[part] | values}}
    )


def of_class(record: Record, digest: str) -> Record:
    """A record that trained a user's class as the file with this digest has it."""
    record = with_measurement(record, "workload", class_path="my_model:MyModel")
    return record.model_copy(
        update={"provenance": record.provenance.model_copy(update={"workload_digest": digest})}
    )


def with_facts(record: Record, **values: Any) -> Record:
    assert record.workload is not None
    return record.model_copy(update={"workload": record.workload.model_copy(update=values)})


def with_work(slug: str, **changes: object) -> Record:
    """A record of 1000 samples/s whose profile counted this work."""
    record = make_record(slug, throughput_per_s=1000.0)
    assert record.profile is not None
    assert record.profile.work is not None
    work = record.profile.work.model_copy(update=changes)
    return record.model_copy(update={"profile": record.profile.model_copy(update={"work": work})})


def calibrated(*, flops_per_s: float, bytes_per_s: float) -> Calibration:
    """A GPU that reaches this in every precision."""
    made = make_calibration(["cuda"])
    products = [
        one.model_copy(update={"flops_per_s": [flops_per_s] * 3})
        for one in made.ceilings[0].matrix_products
    ]
    ceilings = made.ceilings[0].model_copy(
        update={"matrix_products": products, "copy_bytes_per_s": [bytes_per_s] * 3}
    )
    return made.model_copy(update={"ceilings": [ceilings]})
