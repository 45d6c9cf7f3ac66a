"""What a batch-size search found, made without training: throughput that saturates, and memory that
runs out.
"""

from typing import Any

from gpu_report.records.batch_sizes import SCHEMA_VERSION, Answers, SearchRecord, Tried
from gpu_report.records.record import Provenance, Status
from gpu_report.study.search import BatchSearch
from tests.factories import CODE_DIGEST

LIMIT_MIB = 80_000.0
CONFIG: dict[str, Any] = {
    "name": "searching",
    "title": "Searching",
    "devices": "auto",
    "seed": 0,
    "protocol": {"repetitions": 3, "profile_steps": 3},
    "workloads": {
        "unet": {},
        "lstm": {},
        "image_files": {"train_samples": 8, "test_samples": 8, "image_px": 64},
    },
    "experiments": {
        "batch_search": {
            "question": "Which batch size?",
            "search": "batch_size",
            "grid": [
                {
                    "workload": "unet",
                    "size": "128px",
                    "device": "fastest",
                    "precision": ["fp32", "bf16"],
                },
                {"workload": "lstm", "device": "fastest", "needs_accelerator": True},
            ],
        }
    },
}
"""A study that searches and does nothing else."""


def make_search(
    search: BatchSearch, *, machine: str = "xeon-2c", is_resolved: bool = True
) -> SearchRecord:
    """Sizes up to 1000 fit, 1010 do not; 1000 train fastest, 100 nearly so, and 1 is slow."""
    fitting = [
        Tried(
            samples=samples,
            status="ok",
            reason="",
            throughputs_per_s=[per_s * part for part in (0.99, 1.0, 1.0, 1.01)],
            memory_peak_mib=LIMIT_MIB * samples / 1005,
            memory_taken_mib=LIMIT_MIB * samples / 1005,
            memory_limit_mib=LIMIT_MIB,
        )
        for samples, per_s in ((1, 50.0), (1000, 600.0), (100, 580.0))
    ]
    return SearchRecord(
        schema_version=SCHEMA_VERSION,
        machine=machine,
        search=search,
        memory_kind="allocator",
        tries=[*fitting, *([failed_try(1010, "oom")] if is_resolved else [])],
        answers=Answers(
            largest=1000, is_resolved=is_resolved, fastest=1000, smallest_near_fastest=100
        ),
        environment={"torch": "2.15.0"},
        provenance=_provenance(),
    )


def make_failed_search(
    search: BatchSearch, *, machine: str = "xeon-2c", status: Status = "oom"
) -> SearchRecord:
    """Not even one sample could be trained."""
    return make_search(search, machine=machine).model_copy(
        update={"memory_kind": None, "tries": [failed_try(1, status)], "answers": None}
    )


def without_speed(record: SearchRecord) -> SearchRecord:
    """The same where other programs used the CPU meanwhile."""
    assert record.answers is not None
    answers = record.answers.model_copy(update={"fastest": None, "smallest_near_fastest": None})
    return record.model_copy(update={"answers": answers})


def failed_try(samples: int, status: Status) -> Tried:
    return Tried(
        samples=samples,
        status=status,
        reason="out of memory" if status == "oom" else "RuntimeError: no such kernel",
        throughputs_per_s=[],
        memory_peak_mib=None,
        memory_taken_mib=None,
        memory_limit_mib=None,
    )


def _provenance() -> Provenance:
    return Provenance(
        measured_at="2026-05-04T11:00:00Z",
        package_version="0.1.0",
        git_commit="0" * 40,
        git_dirty=False,
        changed_files=[],
        code_digest=CODE_DIGEST,
    )
