"""From which batch size on an accelerator is faster than the CPU, as the table of crossovers interpolates it."""

from collections.abc import Iterable
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Row, doubts_about, estimate
from gpu_report.findings.finding import Evidence, Verdict
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured, why_missing
from gpu_report.findings.rules.device import along_batch_sizes
from gpu_report.findings.scope import CPU, Scope, device_in_words, key_of, model_in_words, optimization_in_words
from gpu_report.tables.bundle import rows_of

_VERDICTS: Final[dict[str, Verdict]] = {
    "crosses": "yes",
    "accelerator always": "yes",
    "cpu always": "no",
}


def _crossover(scope: Scope) -> Iterable[Outcome]:
    found = [row for row in rows_of(scope.tables.crossovers) if row["experiment"] == scope.name]
    if found:
        return [_outcome(scope, row) for row in found]
    asked = len({row["device"] for row in scope.rows}) > 1 and along_batch_sizes(scope)
    return [not_measured("the crossover", why_missing(scope.rows, "it takes two batch sizes"))] if asked else []


def _outcome(scope: Scope, row: Row) -> Outcome:
    compared = [
        one for one in scope.rows if one["workload"] == row["workload"] and one["device"] in (CPU, row["device"])
    ]
    doubtful = [one["variant"] for one in compared if doubts_about(one, "throughput_per_s")]
    crossing = estimate(row, "batch_size")
    return Outcome(
        verdict="not resolved" if doubtful else _VERDICTS.get(row["verdict"], "not resolved"),
        words={
            "subject": _subject(compared[0]) if compared else row["group"],
            "device": device_in_words(row["device"]),
            "from": _from(row),
            "smallest": phrases.count(row["smallest"]),
            "largest": phrases.count(row["largest"]),
            "doubt": f"the times of {doubtful[0]} are in doubt" if doubtful else "no single crossing can be told",
        },
        evidence=(
            Evidence(
                label=f"batch size at which both are equally fast, {row['group']}",
                value=phrases.of_column(row, "batch_size") if crossing.known else str(row["verdict"]),
                table="crossovers",
                variant="",
            ),
        ),
        key=key_of(f"{row['group']} {row['device']}"),
    )


def _subject(row: Row) -> str:
    """The model, and which of the loops that its workload brings."""
    loop = f" with {optimization_in_words(row['options'])}" if row["begins_anew"] else ""
    return f"{model_in_words(row)}{loop}"


def _from(row: Row) -> str:
    """From where on the accelerator wins."""
    if row["verdict"] == "crosses":
        return f"from batch size {phrases.of_column(row, 'batch_size')} on"
    return f"at every batch size measured, {phrases.count(row['smallest'])} to {phrases.count(row['largest'])}"


RULES: Final = (
    Rule(
        name="crossover",
        about="device",
        question="Is there a batch size from which on the accelerator is faster than the CPU?",
        test=_crossover,
        threshold="There is if the faster device changes once between the batch sizes measured, in favour of the"
        " accelerator, and the whole interval of the crossing lies between them; or if the accelerator is faster at"
        " every one. Between two sizes the logarithm of the speedup is taken as a straight line in that of the batch.",
        wording=Wording(
            yes="{device} trained {subject} faster than the CPU {from}.",
            no="{device} trained {subject} more slowly than the CPU at every batch size measured,"
            " {smallest} to {largest}.",
            unresolved="From which batch size on {device} trains {subject} faster than the CPU is not resolved"
            " between {smallest} and {largest}, because {doubt}.",
        ),
        advice={"yes": "Train {subject} on {device} {from}."},
    ),
)
