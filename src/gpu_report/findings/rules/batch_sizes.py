"""Rules about batch-size searches: which batch fits, which trains fastest, and which smaller one is
nearly as fast.
"""

from collections.abc import Iterable
from typing import Final

from gpu_report.findings.estimate import listed
from gpu_report.findings.finding import Evidence
from gpu_report.findings.phrases import (
    CPU,
    Named,
    device_in_words,
    filled,
    of_column,
    why_no_numbers,
)
from gpu_report.findings.rule import Outcome, Rule, not_measured
from gpu_report.findings.scope import BATCH_SEARCH, Scope, key_of
from gpu_report.glossary import Row, model_words
from gpu_report.printing.number_format import count, memory
from gpu_report.study.options import NO_OPTIONS
from gpu_report.study.search import NEAR, RESOLUTION

_ANSWERS: Final = ("is_largest", "is_fastest", "is_smallest_near_fastest")
_RESOLUTION: Final = count(100 * (RESOLUTION - 1), "%").plain()
_NEAR: Final = count(100 * (1 - NEAR), "%").plain()
_FASTEST: Final = (
    "{fastest.samples} samples train fastest, {fastest.throughput_per_s:short} in "
    "{fastest.memory_peak_mib}{alike}"
)
_NEARLY: Final = (
    f"{_FASTEST}; {{near.samples}} are the smallest tried within {_NEAR} of that,"
    " {near.throughput_per_s:short} in {near.memory_peak_mib}"
)
_LOADED: Final = "Other programs used the CPU meanwhile, so no speeds are compared"
_ALONE: Final = f"{_FASTEST}, and no smaller batch tried is within {_NEAR} of that"


def _each_search(scope: Scope) -> Iterable[Outcome]:
    for search in dict.fromkeys(row["search"] for row in scope.rows):
        yield _outcome([row for row in scope.rows if row["search"] == search])


def _outcome(rows: list[Row]) -> Outcome:
    subject, key = _subject(rows[0]), key_of(rows[0]["search"])
    found = {answer: row for answer in _ANSWERS for row in rows if row[answer]}
    if not found:
        return not_measured(subject, why_no_numbers(rows[-1]), key=key)
    largest = found[_ANSWERS[0]]
    fastest, near = (found.get(answer, largest) for answer in _ANSWERS[1:])
    speed, _ = filled(
        _LOADED if len(found) == 1 else _ALONE if near is fastest else _NEARLY,
        {"fastest": Named(fastest), "near": Named(near), "alike": _alike(fastest, rows)},
    )
    return Outcome(
        verdict="yes" if largest["is_resolved"] else "not resolved",
        fields={
            "subject": subject,
            "largest": Named(largest),
            "limit": memory(largest["memory_limit_mib"]).plain(),
            "speed": speed,
        },
        evidence=tuple(
            Evidence(
                label=f"throughput with {count(row['samples']).plain()} samples",
                value=of_column(row, "throughput_per_s", short=True),
                table="batch_sizes",
                variant="",
            )
            for row in {row["samples"]: row for row in (fastest, near)}.values()
        ),
        key=key,
    )


def _alike(fastest: Row, rows: list[Row]) -> str:
    """Which other numbers of samples may be as fast, as an insertion in the sentence about the
    fastest.
    """
    others = [
        row
        for row in rows
        if row is not fastest and row["throughput_per_s_high"] >= fastest["throughput_per_s_low"]
    ]
    if not others:
        return ""
    named = listed([count(row["samples"]).plain() for row in others])
    return f" (its interval overlaps {'that' if len(others) == 1 else 'those'} of {named})"


def _subject(row: Row) -> str:
    options = "" if row["optimization"] == NO_OPTIONS else f" with {row['optimization']}"
    device = f" on {device_in_words(row['device'])}" if row["device"] == CPU else ""
    return f"{model_words(row)} in {row['precision']}{options}{device}"


RULES: Final = (
    Rule(
        name="which",
        about=BATCH_SEARCH,
        question="Which batch size fits, and which trains fastest?",
        threshold=f"The largest is resolved if a batch that is larger by {_RESOLUTION} or less "
        "failed. Throughputs are of one process each, so two that are close may change places in "
        "another.",
        test=_each_search,
        yes="{subject}: the largest batch that fits has {largest.samples} samples and leaves"
        " {largest.headroom_share} of {limit}. {speed}.",
        no="",
        unresolved="{subject}: the largest batch that fits has {largest.samples} samples or more, "
        "which leave {largest.headroom_share} of {limit}. {speed}.",
    ),
)
