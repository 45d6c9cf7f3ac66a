"""What limits the step of each profiled variant, and whether copying between host and device is the bottleneck (B6).

Ceiling that the timed runs came near, else the part of the profiled step that takes most -> one limit per variant
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Row, estimate
from gpu_report.findings.finding import Evidence
from gpu_report.findings.rule import Outcome, Rule, Wording
from gpu_report.findings.rules.efficiency import NEAR, share_of_roof
from gpu_report.findings.scope import CPU, EFFICIENCY, TRACE, Scope, described, device_in_words, key_of, rows_of
from gpu_report.traces.advice import RULES as ADVISING

HALF: Final = 0.5
_LAUNCH_BOUND: Final = next(rule for rule in ADVISING if rule.name == "launch-bound")
BOTTLENECK: Final = _LAUNCH_BOUND.threshold

_TABLE: Final = "step_shares"
_DOUBTS: Final = "trace_doubts"
_PROFILED: Final = "profiled variant"

KERNELS: Final = "kernels"
LOADER: Final = "loader"
_PARTS: Final = {
    KERNELS: ("kernel_share", "memset_share"),
    "transfer": ("memcpy_share",),
    "communication": ("communication_share",),
    LOADER: ("loader_share",),
    "launch": ("runtime_share", "operator_share", "other_share"),
}
"""The parts of an accelerator's step, by the columns of the table of shares; together they are the whole step."""

_PARTS_ON_CPU: Final = {
    KERNELS: ("operator_share",),
    "communication": ("communication_share",),
    LOADER: ("loader_share",),
    "host": ("other_share",),
}

_IN_WORDS: Final = {
    "compute": "arithmetic at its ceiling",
    "memory": "the device's memory at its ceiling",
    KERNELS: "operations that are not shown to come near a ceiling",
    "transfer": "copies",
    "communication": "exchange between processes",
    LOADER: "waiting for data",
    "launch": "the host, which starts the work",
    "host": "Python between two operations",
}
"""Each limit as a sentence names it, in the order in which they are told."""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What a variant's step goes into most: `share` of its time; nothing limits it where that is less than half."""

    row: Row
    name: str
    share: float
    table: str

    @property
    def is_named(self) -> bool:
        """Whether it takes so much that nothing else can take as much."""
        return self.share > HALF


def limit_of(row: Row, ceilings: Row | None) -> Limit | None:
    """The limit of one profiled variant; None where neither its timed runs nor its trace tell it.

    The timed runs go first: the profiler slows the host, and loader processes have their first batches ready.

    Args:
        row: The variant with the shares of its step.
        ceilings: Its row of the table of efficiency, None where its step was not counted.
    """
    return _ceiling(row, ceilings) or _timed_wait(row) or _largest_part(row)


def _ceiling(row: Row, ceilings: Row | None) -> Limit | None:
    if ceilings is None or not ceilings["roof_flops_per_s"] > 0:
        return None
    share = share_of_roof({**row, **ceilings})
    near = share.against(NEAR) == "above"
    return Limit(row=row, name=ceilings["roof"], share=share.value, table=EFFICIENCY) if near else None


def _timed_wait(row: Row) -> Limit | None:
    """Waiting for data, less all of the time in which the accelerator may have worked meanwhile."""
    wait = estimate(row, "data_wait_share")
    busy = estimate(row, "utilisation_percent").mapped(lambda percent: percent / 100)
    exposed = wait if row["device"] == CPU else wait.minus(busy)
    return Limit(row=row, name=LOADER, share=wait.value, table="variants") if exposed.against(HALF) == "above" else None


def _largest_part(row: Row) -> Limit | None:
    parts = _PARTS_ON_CPU if row["device"] == CPU else _PARTS
    shares = {name: sum(float(row[column]) for column in columns) for name, columns in parts.items()}
    if any(math.isnan(share) for share in shares.values()):
        return None
    name = max(shares, key=lambda part: shares[part])
    limit = Limit(row=row, name=name, share=shares[name], table=_TABLE)
    return None if name == LOADER and limit.is_named and _waited_less(row) else limit


def _waited_less(row: Row) -> bool:
    """Whether the timed epochs waited for data in less than half of their time."""
    return estimate(row, "data_wait_share").against(HALF) == "below"


def _limits(scope: Scope, *, on_cpu: bool) -> Iterable[Outcome]:
    rows = [row for row in scope.rows if (row["device"] == CPU) == on_cpu]
    return [
        _limits_on(scope, device, [row for row in rows if row["device"] == device])
        for device in dict.fromkeys(row["device"] for row in rows)
    ]


def _limits_on(scope: Scope, device: str, rows: Sequence[Row]) -> Outcome:
    ceilings = {row["variant"]: row for row in rows_of(scope.tables.efficiency)}
    limits = [(row, limit_of(row, ceilings.get(row["variant"]))) for row in rows]
    told = [limit for _, limit in limits if limit is not None]
    untold = [row for row, limit in limits if limit is None]
    named = sorted((limit for limit in told if limit.is_named), key=lambda limit: -limit.share)
    shared = [limit for limit in told if not limit.is_named]
    return Outcome(
        verdict="inconclusive" if not told else "supported" if 2 * len(named) > len(told) else "contradicted",
        words={
            "device": device_in_words(device),
            "count": phrases.how_many(len(named), len(told), _PROFILED),
            "limits": _told_by_limit(named),
            "most": _largest(shared),
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
            share = phrases.share(found[0].share)
            told.append(f"{words} in {len(found)}, {most}{described(found[0].row)} with {share}")
    return f": {'; '.join(told)}" if told else ""


def _largest(shared: Sequence[Limit]) -> str:
    if not shared:
        return ""
    count = "In the other one" if len(shared) == 1 else f"In the other {len(shared)}"
    return f" {count} no part takes more than half."


def _evidence(limit: Limit) -> Evidence:
    """What a part took; the rate of a ceiling is that of the timed runs."""
    label = f"{'limit' if limit.is_named else 'largest part, no limit'}: {_IN_WORDS[limit.name]}"
    return phrases.evidence(label, phrases.share(limit.share), limit.table, limit.row)


def _evidence_of_doubt(scope: Scope, row: Row) -> Evidence:
    return phrases.evidence("limit not told by the trace", _why_untold(scope, row), _DOUBTS, row)


def _why_untold(scope: Scope, row: Row) -> str:
    """The first failed check of the trace's steps, which its table has in whole sentences."""
    doubts = [one for one in rows_of(scope.tables.trace_doubts) if one["variant"] == row["variant"]]
    checks = [one["check"] for one in doubts if "steps" in one["spoils"]]
    if math.isnan(row["other_share"]):
        return f"it failed the check '{checks[0]}'" if checks else "shares of its step are missing"
    return "its profiled steps waited more for data than the timed ones"


def _doubt(scope: Scope, untold: Sequence[Row]) -> str:
    if not untold:
        return ""
    return f"no trace tells it: that of {described(untold[0])} does not, since {_why_untold(scope, untold[0])}"


def _transfer(scope: Scope) -> Iterable[Outcome]:
    asked = [row for row in scope.rows if row["device"] != CPU]
    if not asked:
        return []
    column = "exposed_copy_share"
    told = sorted((row for row in asked if not math.isnan(row[column])), key=lambda row: -float(row[column]))
    untold = [row for row in asked if math.isnan(row[column])]
    held = [row for row in told if row[column] >= BOTTLENECK]
    return [
        Outcome(
            verdict="inconclusive" if not told else "supported" if held else "contradicted",
            words={
                "count": phrases.how_many(len(held), len(told), _PROFILED),
                "most": described(told[0]) if told else "",
                "share": phrases.share(told[0][column]) if told else "",
                "others": phrases.more_traces_do_not_tell(len(untold)),
                "doubt": _doubt(scope, untold),
            },
            evidence=tuple(
                phrases.evidence("copies that no kernel hid", phrases.share(row[column]), _TABLE, row) for row in told
            ),
        )
    ]


_LIMITS_THRESHOLD: Final = (
    " The answer is yes where that names a limit for more than half of the variants whose step is told."
    " A training is limited by arithmetic or by memory if its timed runs reached at least half of that ceiling, and by"
    " its data if they waited for them in more than half of the time, what the accelerator worked left out, both with"
    " intervals included."
)

RULES: Final = (
    Rule(
        name="limits",
        about=TRACE,
        question="Can one limit be named for each variant on the accelerator?",
        test=partial(_limits, on_cpu=False),
        threshold="A part limits a variant if it takes more than half of its profiled step: then nothing else takes as"
        " much, and no other remedy can make the step twice as fast." + _LIMITS_THRESHOLD,
        wording=Wording(
            supported="On {device} one part took more than half of the step in {count}{limits}.{most}{others}",
            contradicted="On {device} no one part limits most trainings: one took more than half of the step in"
            " {count}{limits}.{most}{others}",
            inconclusive="What limits the trainings on {device} stays open, because {doubt}.",
            not_measured="",
        ),
    ),
    Rule(
        name="cpu_limits",
        about=TRACE,
        question="Can one limit be named for each variant on the CPU?",
        test=partial(_limits, on_cpu=True),
        threshold="A part limits a variant if it takes more than half of its profiled step. Of the CPU a trace tells"
        " waiting for data, operations, exchange and what goes on between operations, but not what an operation itself"
        " waits for." + _LIMITS_THRESHOLD,
        wording=Wording(
            supported="On {device} one part took more than half of the step in {count}{limits}.{most}{others}",
            contradicted="On {device} no one part limits most trainings: one took more than half of the step in"
            " {count}{limits}.{most}{others}",
            inconclusive="What limits the trainings on {device} stays open, because {doubt}.",
            not_measured="",
        ),
    ),
    Rule(
        name="transfer_bound",
        about=TRACE,
        question="Is copying between host and device the bottleneck of any training?",
        test=_transfer,
        threshold=f"It is if copies that no kernel hides take at least {100 * BOTTLENECK:g} % of the profiled step of a"
        " variant: without them it would be at least 1.25 times as fast (Amdahl's law), the line that is drawn for"
        " launching work too. Copies within the device count as well, because the share does not tell them apart.",
        wording=Wording(
            supported="Copying was the bottleneck in {count}, most of all in {most}: copies that no kernel hid took"
            " {share} of the step.{others}",
            contradicted="Copying was the bottleneck in {count}: copies that no kernel hid took {share} of the step at"
            " most, in {most}.{others}",
            inconclusive="Whether copying is the bottleneck of a training stays open, because {doubt}.",
            not_measured="",
        ),
    ),
)
