"""Whether memory bounds the batch: the largest that fits an accelerator and the first that does not (B7)."""

import math
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Row, estimate
from gpu_report.findings.finding import Evidence
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured, per_group, why_missing
from gpu_report.findings.scope import CPU, Group, device_in_words

OUT_OF_MEMORY: Final = "oom"


def _bounded(group: Group) -> Outcome | None:
    rows = [row for row in group.rows if row["device"] != CPU]
    if not rows:
        return None
    fitting = [row for row in group.measured if row["device"] != CPU and not math.isnan(row["memory_peak_mib"])]
    refused = [row for row in rows if row["status"] == OUT_OF_MEMORY]
    if not fitting:
        return not_measured(group.title, why_missing(rows, "no variant has a peak of memory"), key=group.key)
    largest = fitting[-1]
    first = refused[0] if refused else None
    crossed = first is not None and first["batch_size"] < largest["batch_size"]
    return Outcome(
        verdict="no" if first is None else "not resolved" if crossed else "yes",
        words={
            "subject": group.title,
            "device": device_in_words(largest["device"]),
            "largest": group.value_in_words(largest),
            "memory": phrases.of_column(largest, "memory_peak_mib"),
            "share": _share(largest),
            "rate": phrases.of_column(largest, "throughput_per_s", short=True),
            "first": group.value_in_words(first) if first else "",
            "asked": _asked(first) if first else "",
            "doubt": f"{group.value_in_words(first)} did not fit although a larger one did" if first else "",
        },
        evidence=_evidence(fitting, refused, group.table),
        key=group.key,
    )


def _share(row: Row) -> str:
    """How much of the device the training's peak is; nothing where the device did not tell its memory."""
    device = float(row["device_memory_mib"])
    if math.isnan(device):
        return ""
    share = estimate(row, "memory_peak_mib").mapped(lambda mib: 100 * mib / device)
    return f", {phrases.percent(share, short=True)} of the device's {phrases.mebibytes(device)}"


def _asked(row: Row) -> str:
    asked = float(row["memory_asked_mib"])
    return "" if math.isnan(asked) else f", where an allocation of {phrases.mebibytes(asked)} failed"


def _evidence(fitting: list[Row], refused: list[Row], table: str) -> tuple[Evidence, ...]:
    return (
        *phrases.evidence_of_columns(fitting[-1:], {"memory_peak_mib": "peak memory"}, table),
        *(
            phrases.evidence("out of memory", phrases.memory_asked(row) or "it did not fit", table, row)
            for row in refused
        ),
        *phrases.evidence_of_columns(fitting[-2::-1], {"memory_peak_mib": "peak memory"}, table),
    )


RULES: Final = (
    Rule(
        name="bounded",
        about="batch_size",
        question="Does the accelerator's memory bound the batch size?",
        test=per_group(_bounded),
        threshold="It does if a batch size of the study ran out of memory and every one that fitted is smaller. The"
        " peak is that of the tensors; what the allocator holds in reserve comes on top.",
        wording=Wording(
            yes="The largest batch of {subject} that fitted into the memory of {device} was {largest}: it took"
            " {memory} at its peak{share}, and trained {rate}; {first} did not fit{asked}.",
            no="Every batch of {subject} that was measured fitted into the memory of {device}: {largest}, the"
            " largest, took {memory} at its peak{share}.",
            unresolved="Which batch of {subject} fills the memory of {device} is not resolved, because {doubt}:"
            " {largest} took {memory} at its peak{share}.",
        ),
    ),
)
