"""What limits the step of each profiled variant, and whether copying between host and device is the bottleneck (B6).

parts of the profiled step -> the one that takes more than half of it

Where the profiler slowed the step too much for that, the trace's quality gate leaves the parts out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row
from gpu_report.findings.finding import Evidence
from gpu_report.findings.rule import Outcome, Rule, Wording
from gpu_report.findings.rules.efficiency import NEAR, passes_roof, share_of_roof
from gpu_report.findings.rules.parts import COPIES, of_one_run, parts_of
from gpu_report.findings.scope import CPU, EFFICIENCY, TRACE, Scope, described, device_in_words, key_of
from gpu_report.tables.bundle import rows_of
from gpu_report.traces.advice import RULES as ADVISING

HALF: Final = 0.5
BOTTLENECK: Final = next(rule.threshold for rule in ADVISING if rule.name == "launch-bound")

_TABLE: Final = "step_shares"
_DOUBTS: Final = "trace_doubts"
_PROFILED: Final = "profiled variant"

_IN_WORDS: Final = {
    "compute": "arithmetic at its ceiling",
    "memory": "the device's memory at its ceiling",
    "kernels": "operations that are not shown to come near a ceiling",
    COPIES: "copies",
    "communication": "exchange between processes",
    "loader": "waiting for data",
    "launch": "the host, which starts the work",
    "host": "Python between two operations",
}
"""Each limit as a sentence names it, in the order in which they are told."""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The part of a variant's step that takes most, as a share of it, and the table that tells it."""

    row: Row
    name: str
    share: Estimate
    is_named: bool
    """Whether it takes more than half, so that nothing else can take as much."""
    table: str = _TABLE


def limit_of(row: Row, ceilings: Row | None) -> Limit | None:
    """The limit of one profiled variant; None where its trace does not tell it.

    Args:
        row: The variant with the row of its trace in the table of shares.
        ceilings: Its row of the table of efficiency, None where its step was not counted.
    """
    if ceilings is not None and ceilings["roof_flops_per_s"] > 0 and not passes_roof(ceilings):
        share = share_of_roof({**row, **ceilings})
        if share.against(NEAR) == "above":
            return Limit(row=row, name=ceilings["roof"], share=share, is_named=True, table=EFFICIENCY)
    parts = parts_of(row)
    if not parts:
        return None
    name, share = max(parts.items(), key=lambda part: part[1].value)
    return Limit(row=row, name=name, share=share, is_named=share.value > HALF)


def _limits(scope: Scope, *, on_cpu: bool) -> Iterable[Outcome]:
    rows = [row for row in scope.rows if (row["device"] == CPU) == on_cpu]
    return [
        _limits_on(scope, device, [row for row in rows if row["device"] == device])
        for device in dict.fromkeys(row["device"] for row in rows)
    ]


def _limits_on(scope: Scope, device: str, rows: Sequence[Row]) -> Outcome:
    ceilings = {row["variant"]: row for row in rows_of(scope.tables.efficiency)}
    limits = [(row, limit_of(row, ceilings.get(row["variant"]))) for row in rows]
    told = sorted((limit for _, limit in limits if limit is not None), key=lambda limit: -limit.share.value)
    untold = [row for row, limit in limits if limit is None]
    named, shared = ([limit for limit in told if limit.is_named == is_named] for is_named in (True, False))
    return Outcome(
        verdict="not resolved" if not told else "yes" if 2 * len(named) > len(told) else "no",
        words={
            "device": device_in_words(device),
            "count": phrases.how_many(len(named), len(told), _PROFILED),
            "limits": _told_by_limit(named),
            "rest": _rest(shared),
            "others": phrases.more_traces_do_not_tell(len(untold)),
            "doubt": _doubt(scope, untold),
        },
        evidence=(*map(_evidence, (*named, *shared)), *(_evidence_of_doubt(scope, row) for row in untold)),
        key=key_of(device),
    )


def _told_by_limit(named: Sequence[Limit]) -> str:
    """How many variants each limits, with the one it limits most."""
    told = []
    for name, words in _IN_WORDS.items():
        found = [limit for limit in named if limit.name == name]
        if found:
            most = "" if len(found) == 1 else "most of all "
            share = _in_percent(found[0].share, short=True)
            told.append(f"{words} in {len(found)}, {most}{described(found[0].row)} with {share}")
    return f": {'; '.join(told)}" if told else ""


def _rest(shared: Sequence[Limit]) -> str:
    if not shared:
        return ""
    count = "In the other one" if len(shared) == 1 else f"In the other {len(shared)}"
    return f" {count} no part is shown to take more than half."


def _evidence(limit: Limit) -> Evidence:
    label = f"{'limit' if limit.is_named else 'largest part, no limit'}: {_IN_WORDS[limit.name]}"
    return phrases.evidence(label, _in_percent(limit.share), limit.table, limit.row)


def _in_percent(share: Estimate, *, short: bool = False) -> str:
    return phrases.percent(share.mapped(lambda part: 100 * part), short=short)


def _evidence_of_doubt(scope: Scope, row: Row) -> Evidence:
    return phrases.evidence("limit not told by the trace", _why_untold(scope, row), _DOUBTS, row)


def _why_untold(scope: Scope, row: Row) -> str:
    """The first failed check of the trace's steps, which its table has in whole sentences."""
    doubts = [one for one in rows_of(scope.tables.trace_doubts) if one["variant"] == row["variant"]]
    checks = [one["check"] for one in doubts if "steps" in one["spoils"]]
    return f"it failed the check '{checks[0]}'" if checks else "parts of its step are missing"


def _doubt(scope: Scope, untold: Sequence[Row]) -> str:
    if not untold:
        return ""
    return f"no trace tells it: that of {described(untold[0])} does not, since {_why_untold(scope, untold[0])}"


def _transfer(scope: Scope) -> Iterable[Outcome]:
    asked = [(row, of_one_run(row["exposed_copy_share"])) for row in scope.rows if row["device"] != CPU]
    if not asked:
        return []
    told = sorted((pair for pair in asked if pair[1].known), key=lambda pair: -pair[1].value)
    untold = [row for row, share in asked if not share.known]
    held = sum(share.value >= BOTTLENECK for _, share in told)
    return [
        Outcome(
            verdict="yes" if held else "no" if told else "not resolved",
            words={
                "count": phrases.how_many(held, len(told), _PROFILED),
                "most": described(told[0][0]) if told else "",
                "share": _in_percent(told[0][1]) if told else "",
                "others": phrases.more_traces_do_not_tell(len(untold)),
                "doubt": _doubt(scope, untold),
            },
            evidence=tuple(
                phrases.evidence("copies that no kernel hid", _in_percent(share), _TABLE, row) for row, share in told
            ),
        )
    ]


_CEILING: Final = (
    " Arithmetic or memory limits a training that reached at least half of that ceiling, intervals included. The answer"
    " is yes where a limit can be named for more than half of the variants whose traces tell it."
)

_WORDING: Final = Wording(
    yes="On {device} one part took more than half of the step in {count}{limits}.{rest}{others}",
    no="On {device} no one part limits most trainings: one took more than half of the step in"
    " {count}{limits}.{rest}{others}",
    unresolved="What limits the trainings on {device} is not resolved, because {doubt}.",
    not_measured="",
)

RULES: Final = (
    Rule(
        name="limits",
        about=TRACE,
        question="Does one part limit the step of most variants on the accelerator?",
        test=partial(_limits, on_cpu=False),
        threshold="A part limits a variant if it takes more than half of its profiled step: then nothing else takes as"
        " much, and no other remedy can make the step twice as fast. Each moment counts once: for kernels, then for"
        " copies that none of them hides, exchange, waiting for data, and for the host what is left." + _CEILING,
        wording=_WORDING,
    ),
    Rule(
        name="cpu_limits",
        about=TRACE,
        question="Does one part limit the step of most variants on the CPU?",
        test=partial(_limits, on_cpu=True),
        threshold="A part limits a variant if it takes more than half of its profiled step. Of the CPU a trace tells"
        " waiting for data, operations, exchange and what goes on between operations, but not what an operation itself"
        " waits for." + _CEILING,
        wording=_WORDING,
    ),
    Rule(
        name="transfer_bound",
        about=TRACE,
        question="Is copying between host and device the bottleneck of any training?",
        test=_transfer,
        threshold=f"It is if copies that no kernel hides take at least {100 * BOTTLENECK:g} % of the profiled"
        " step: without them it would be at least 1.25 times as fast (Amdahl's law), the line that is"
        " drawn for launching work too. Copies within the device count as well, because the trace's sum does not tell"
        " them apart.",
        wording=Wording(
            yes="Copying was the bottleneck in {count}, most of all in {most}: copies that no kernel hid took"
            " {share} of the step.{others}",
            no="Copying was the bottleneck in {count}: copies that no kernel hid took {share} of the step at"
            " most, in {most}.{others}",
            unresolved="Whether copying is the bottleneck of a training is not resolved, because {doubt}.",
            not_measured="",
        ),
    ),
)
