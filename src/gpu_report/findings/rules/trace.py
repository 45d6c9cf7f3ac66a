"""Rules about what a step consists of: what limits it, is copying the bottleneck (B6), and
the traces' advice.

parts of the step -> the one that takes more than half of it
one advice of traces, asked of the scope's variants -> a rule of the findings, with one outcome for
all

Where the profiler slowed the step too much, the trace's quality gate leaves the parts out.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, gain_over, of_one_run, speedup
from gpu_report.findings.finding import Evidence
from gpu_report.findings.phrases import CPU, as_share, how_many
from gpu_report.findings.rule import HALF, Outcome, Rule
from gpu_report.findings.rules.device import share_of_roof
from gpu_report.findings.scope import EFFICIENCY, TRACE, Scope, key_of, only_difference
from gpu_report.glossary import PRECISIONS, Row
from gpu_report.printing.number_format import quantity, share
from gpu_report.study.options import EXECUTIONS, execution
from gpu_report.tables.bundle import grouped, rows_of
from gpu_report.tables.statistics import holm
from gpu_report.tables.traces import STEP_PARTS, shares_of_steps
from gpu_report.traces.advice import ADVICE_OF, ALL_ADVICE, Advice
from gpu_report.traces.quality import Gate
from gpu_report.traces.steps import STEPS
from gpu_report.traces.tables import TraceTables
from gpu_report.words import described, device_in_words, listed, model_words, optimization_in_words

BOTTLENECK: Final = ADVICE_OF["launch-bound"].threshold

_TABLE: Final = "step_shares"
_PROFILED: Final = "profiled configuration"
_PARTS: Final = {
    "kernels": ("kernel", "memset"),
    "transfer": ("memcpy",),
    "communication": ("communication",),
    "loader": ("loader",),
    "launch": ("runtime", "operator", "other"),
}
_PARTS_ON_CPU: Final = {
    "kernels": ("operator",),
    "communication": ("communication",),
    "loader": ("loader",),
    "host": tuple(
        part for part in STEP_PARTS if part not in ("operator", "communication", "loader")
    ),
}
"""Parts of a step by those of the table of shares; on a CPU nothing goes on behind another part."""

PARTS_IN_WORDS: Final[Mapping[str, str]] = {
    "compute": "arithmetic",
    "memory": "memory",
    "kernels": "kernels",
    "transfer": "copies",
    "communication": "communication between processes",
    "loader": "waiting for data",
    "launch": "launching",
    "host": "Python between two operations",
}
"""Each limit as a sentence names it; arithmetic and memory limit at half of their measured peak,
kernels below.
"""

_NOTE: Final = (
    " A step at half of a measured peak or more is limited by arithmetic or memory; below that, "
    "by its kernels."
)


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The part of a variant's step that takes most, as a share of it, and the table that has it."""

    row: Row
    name: str
    share: Estimate
    table: str = _TABLE

    @property
    def is_named(self) -> bool:
        """Whether it takes more than half, so that nothing else can take as much."""
        return self.share.value > HALF

    @property
    def evidence(self) -> Evidence:
        label = (
            f"{'limit' if self.is_named else 'largest part, no limit'}: {PARTS_IN_WORDS[self.name]}"
        )
        return phrases.evidence(label, as_share(self.share), self.table, self.row)


def parts_of(row: Row) -> dict[str, float]:
    """Each part of a variant's step with its share, which sum to 1; none where the trace does not
    show them.

    Where it does not show how the host's time divides, a part that takes more than half is known
    all the same.
    """
    parts = _PARTS_ON_CPU if row["device"] == CPU else _PARTS
    shares = {
        name: sum(float(row[f"{one}_share"]) for one in of_table)
        for name, of_table in parts.items()
    }
    known = {name: part for name, part in shares.items() if not math.isnan(part)}
    is_whole = len(known) == len(shares) or max(known.values(), default=0.0) > HALF
    return known if is_whole else {}


def parts_of_steps(tables: TraceTables, device: str) -> dict[str, float]:
    """Each part of the steps of one trace likewise, without those that took nothing; none where its
    checks do not let the steps through.
    """
    steps = tables[STEPS]
    on_cpu = device == CPU or all(row["device_busy_ms"] is None for row in steps)
    shares = shares_of_steps(Gate(tables), on_cpu=on_cpu)
    parts = parts_of({"device": CPU if on_cpu else device, **shares})
    return {name: part for name, part in parts.items() if part}


def limit_of(row: Row, ceilings: Row | None) -> Limit | None:
    """The limit of one profiled variant; None where its trace does not show it.

    Args:
        row: The variant with the row of its trace in the table of shares.
        ceilings: Its row of the table of efficiency, None where its step was not counted.
    """
    # A roof does not hold for what took less time than its counted work needs.
    if (
        ceilings is not None
        and ceilings["roof_flops_per_s"] > 0
        and not ceilings["achieved_flops_per_s"] > ceilings["roof_flops_per_s"]
    ):
        of_roof = share_of_roof({**row, **ceilings})
        if of_roof.against(HALF) == "above":
            return Limit(row=row, name=ceilings["roof"], share=of_roof, table=EFFICIENCY)
    parts = parts_of(row)
    if not parts:
        return None
    name, most = max(parts.items(), key=lambda part: part[1])
    return Limit(row=row, name=name, share=of_one_run(most))


def _limits(scope: Scope, *, on_cpu: bool) -> Iterable[Outcome]:
    ceilings = {row["variant"]: row for row in rows_of(scope.tables.efficiency)}
    asked = [row for row in scope.rows if (row["device"] == CPU) == on_cpu]
    for device in dict.fromkeys(row["device"] for row in asked):
        limits = [
            (row, limit_of(row, ceilings.get(row["variant"])))
            for row in asked
            if row["device"] == device
        ]
        found = (limit for _, limit in limits if limit is not None)
        known = sorted(found, key=lambda limit: -limit.share.value)
        unknown = [row for row, limit in limits if limit is None]
        named = [limit for limit in known if limit.is_named]
        shared = [limit for limit in known if not limit.is_named]
        by_workload = [
            f"{title}: "
            + listed([f"{PARTS_IN_WORDS[name]} ({number})" for name, number in most_common])
            for title, each in grouped(named, lambda limit: limit.row["workload_title"]).items()
            for most_common in [Counter(limit.name for limit in each).most_common()]
        ]
        rest = {0: "", 1: " The other one has no such part."}.get(
            len(shared), f" The other {len(shared)} have no such part."
        )
        yield Outcome(
            verdict="not resolved" if not known else "yes" if 2 * len(named) > len(known) else "no",
            fields={
                "device": device_in_words(device),
                "count": how_many(len(named), len(known), _PROFILED),
                "limits": f": {'; '.join(by_workload)}" if by_workload else "",
                "note": _NOTE
                if any(limit.name in ("compute", "memory", "kernels") for limit in named)
                else "",
                "rest": rest,
                "others": _more_traces(len(unknown)),
                "doubt": _doubt(scope, unknown),
            },
            evidence=(
                *(limit.evidence for limit in (*named, *shared)),
                *(
                    phrases.evidence(
                        "limit missing in the trace", _why_unknown(scope, row), "trace_doubts", row
                    )
                    for row in unknown
                ),
            ),
            key=key_of(device),
        )


def _more_traces(unknown: int) -> str:
    """A sentence, with the space before it, about traces that do not show something; empty without
    any.
    """
    if not unknown:
        return ""
    return f" {'One more trace' if unknown == 1 else f'{unknown} more traces'} cannot show it."


def _none_of(reliable: int, unknown: int) -> str:
    """Why a question about any configuration has no answer: a trace that cannot show it may be the
    one.
    """
    return f"{unknown} of {reliable + unknown} traces cannot show it, and none of the others does"


def _why_unknown(scope: Scope, row: Row) -> str:
    """The first failed check of the trace's steps, which its table has in whole sentences."""
    doubts = [one for one in rows_of(scope.tables.trace_doubts) if one["variant"] == row["variant"]]
    checks = [one["check"] for one in doubts if "steps" in one["spoils"]]
    return f"it failed the check '{checks[0]}'" if checks else "parts of its step are missing"


def _doubt(scope: Scope, unknown: Sequence[Row]) -> str:
    if not unknown:
        return ""
    return (
        f"no trace shows it: that of {described(unknown[0])} does not, since "
        f"{_why_unknown(scope, unknown[0])}"
    )


def _transfer(scope: Scope) -> Iterable[Outcome]:
    asked = [row for row in scope.rows if row["device"] != CPU]
    if not asked:
        return []
    unknown = [row for row in asked if math.isnan(row["exposed_copy_share"])]
    known = sorted(
        (row for row in asked if row not in unknown),
        key=lambda row: -float(row["exposed_copy_share"]),
    )
    held = sum(row["exposed_copy_share"] >= BOTTLENECK for row in known)
    most = share(known[0]["exposed_copy_share"]).plain() if known else ""
    extreme = described(known[0]) if known else ""
    return [
        Outcome(
            verdict="yes" if held else "not resolved" if unknown else "no",
            fields={
                "count": how_many(held, len(known), _PROFILED),
                "extreme": extreme,
                "share": most,
                "seen": f": copies that no kernel hid took {most} of the step at most, in {extreme}"
                if known
                else "",
                "others": _more_traces(len(unknown)),
                "doubt": _none_of(len(known), len(unknown)) if known else _doubt(scope, unknown),
            },
            evidence=phrases.evidence_of_columns(
                known, {"exposed_copy_share": "copies that no kernel hid"}, _TABLE
            ),
        )
    ]


def _asked(scope: Scope, advice: Advice) -> Sequence[Row]:
    """The variants of which the advice is asked: all, or those on a GPU; of these all that share a
    training, as soon as one of them exchanges; or those that launch kernels one by one, since a
    CUDA graph has one launch for all of its kernels.
    """
    on_gpus = [row for row in scope.rows if row["device"] != CPU]
    if advice.asked_of == "exchanging processes":
        rows = [row for row in scope.rows if row["devices"] > 1]
        return rows if any(row["communication_share"] > 0 for row in rows) else ()
    if advice.asked_of == "single launches":
        return [row for row in on_gpus if execution(row["options"]) != EXECUTIONS["graphs"]]
    return scope.rows if advice.asked_of == "all" else on_gpus


def _why_unanswered(scope: Scope, advice: Advice) -> dict[str, str]:
    """Why traces cannot show whether the advice applies, by variant."""
    rows = [row for row in rows_of(scope.tables.trace_unanswered) if row["rule"] == advice.name]
    return {row["variant"]: str(row["reason"]) for row in rows}


def _applying(scope: Scope, advice: Advice, asked: Iterable[Row]) -> list[tuple[Row, Row]]:
    """The variants to which the advice applies, each with its row of advice, the most extreme
    first.

    The most extreme value is farthest beyond the threshold, then where the advice comes first in
    its own trace.
    """
    sign = 1 if advice.is_floor else -1
    why_of = _why_unanswered(scope, advice)
    by_variant = {row["variant"]: row for row in asked if row["variant"] not in why_of}
    given = sorted(
        (row for row in rows_of(scope.tables.trace_advice) if row["rule"] == advice.name),
        key=lambda row: (sign * float(row["value"]), int(row["rank"])),
    )
    applying = grouped(given, lambda row: row["variant"])
    return [(by_variant[name], rows[0]) for name, rows in applying.items() if name in by_variant]


def _advised(scope: Scope, *, advice: Advice) -> Iterable[Outcome]:
    """In how many of the variants whose traces show it the advice applies, and what following it
    gained.
    """
    rows, why_of = _asked(scope, advice), _why_unanswered(scope, advice)
    doubted = [row for row in rows if row["variant"] in why_of]
    reliable = [row for row in rows if row["variant"] not in why_of]
    applies = _applying(scope, advice, rows)
    fields = {
        "count": how_many(len(applies), len(reliable), _PROFILED),
        "others": _more_traces(len(doubted)),
    }
    if applies:
        row, most = applies[0]
        place = f" ({most['place']})" if most["place"] else ""
        fields |= {
            "extreme": described(row),
            "found": f"{advice.label}, {_value(advice, most)}{place}.",
        }
        evidence = [
            phrases.evidence(advice.label, _value(advice, one), "trace_advice", of)
            for of, one in applies
        ]
        causes = (ADVICE_OF[name] for name in advice.caused_by)
        advises = not any(_applying(scope, cause, rows) for cause in causes) and not _slows_down(
            scope, advice.done_by
        )
        followed = [row for row, _ in applies] if advises else []
        gain, fields["gained"], measured = _followed(scope, followed, advice.helpful)
        return [
            Outcome(
                verdict="yes",
                fields=fields,
                evidence=(*evidence, *measured),
                gain=gain,
                advises=advises,
            )
        ]
    if not doubted:
        return [Outcome(verdict="no", fields=fields)] if reliable else []
    if reliable:
        doubt = _none_of(len(reliable), len(doubted))
    else:
        reason = why_of[doubted[0]["variant"]]
        doubt = (
            f"no trace shows it reliably: that of {described(doubted[0])} does not, since {reason}"
        )
    return [Outcome(verdict="not resolved", fields={"doubt": doubt})]


def _followed(
    scope: Scope, rows: Sequence[Row], helpful: Sequence[str]
) -> tuple[Estimate | None, str, list[Evidence]]:
    """The greatest gain of one of these options or precisions, by itself, in one of these
    trainings, with a clause and its evidence; None without any.

    It is significant among all such comparisons (Holm). Precisions are compared with fp32, and
    custom training loops with nothing.
    """
    measured = [row for row in rows_of(scope.tables.variants) if row["status"] == "ok"]
    own_loops = set(scope.tables.own_loops["variant"])
    pairs = [
        (before, after, what)
        for before in rows
        for after in measured
        if (what := only_difference(before, after)) in helpful
        and before["variant"] not in own_loops
        and (what not in PRECISIONS or before["precision"] == PRECISIONS[0])
    ]
    alone = [gain_over(scope.tables, after, before) for before, after, _ in pairs]
    gains = [
        replace(gain, p=p) for gain, p in zip(alone, holm([gain.p for gain in alone]), strict=True)
    ]
    gained = [pair for pair in zip(gains, pairs, strict=True) if pair[0].against(1.0) == "above"]
    if not gained:
        return None, "", []
    gain, (before, after, what) = max(gained, key=lambda pair: pair[0].value)
    followed = what if what in PRECISIONS else optimization_in_words(what)
    devices = f" on {after['devices']} devices" if after["devices"] > 1 else ""
    evidence = [
        phrases.evidence(label, phrases.of_column(row, "throughput_per_s"), "variants", row)
        for label, row in (("throughput before", before), (f"throughput with {what}", after))
    ]
    return gain, f" (measured: {followed} with {model_words(after)}{devices})", evidence


def _slows_down(scope: Scope, options: Sequence[str]) -> bool:
    """Whether one of these options alone trained slower than its baseline in some experiment, and
    none faster.
    """
    sides = {
        speedup(row, row).against(1.0)
        for rows in scope.tables.rows_of_experiments.values()
        for row in rows
        if row["optimization"] in options and row["status"] == "ok"
    }
    return "below" in sides and "above" not in sides


def _value(advice: Advice, row: Row) -> str:
    value = row["value"]
    return share(value).plain() if advice.unit == "1" else f"{quantity(value).plain()} times a step"


def _rule(advice: Advice) -> Rule:
    """The finding that asks all traces for one advice, in the advice's own words."""
    is_share = advice.unit == "1"
    threshold = f"{100 * advice.threshold:g} %" if is_share else f"{advice.threshold:g}"
    limit = f"{'below' if advice.is_floor else 'at least'} {threshold}"
    remedy = advice.remedy.rstrip(".").replace("{", "{{").replace("}", "}}")
    return Rule(
        name=key_of(advice.name),
        about=TRACE,
        question=advice.question,
        threshold=f"A configuration counts if {advice.measure} is {limit}. {advice.reason}",
        test=partial(_advised, advice=advice),
        yes=f"{advice.holds} in {{count}}, most of all in {{extreme}}: {{found}}{{others}}",
        no=f"{advice.holds} in {{count}}.",
        unresolved=f"Whether {advice.whether} is not resolved, because {{doubt}}.",
        not_measured="",
        advice={"yes": f"{remedy}{{gained}}."},
    )


def _limit_rule(*, name: str, where: str, threshold: str, on_cpu: bool) -> Rule:
    return Rule(
        name=name,
        about=TRACE,
        question=f"Does one part limit the step of most configurations on the {where}?",
        threshold="A part limits a configuration if it takes more than half of its "
        f"step{threshold} Memory or"
        " arithmetic limits a training that reached at least half of that measured peak, "
        "intervals included. The answer is yes where more than half of the configurations with a "
        "usable trace have a limit.",
        test=partial(_limits, on_cpu=on_cpu),
        yes="On {device}, one part takes most of the step in {count}{limits}.{note}{rest}{others}",
        no="On {device}, most configurations have no part that takes most of the step: {count}"
        " have{limits}.{note}{rest}{others}",
        unresolved="What limits the trainings on {device}",
        not_measured="",
    )


RULES: Final = (
    _limit_rule(
        name="limits",
        where="GPU",
        threshold=": then nothing else takes as much, and no other remedy can make the step twice "
        "as fast. Each moment counts once: for kernels, then for copies that none of them hides, "
        "exchange, waiting for data, and for the host what is left.",
        on_cpu=False,
    ),
    _limit_rule(
        name="cpu_limits",
        where="CPU",
        threshold=". A trace of the CPU shows waiting for data, operations, exchange and what "
        "happens between operations, but not what an operation itself waits for.",
        on_cpu=True,
    ),
    Rule(
        name="transfer_bound",
        about=TRACE,
        question="Is copying between host and device the bottleneck of any training?",
        threshold=f"It is if copies that no kernel hides take at least {100 * BOTTLENECK:g} % of "
        "the step: without them it would be at least 1.25 times as fast (Amdahl's law), "
        "the same limit as for launching. Copies within the device count too, because the trace "
        "sums all of them.",
        test=_transfer,
        yes="Copying was the bottleneck in {count}, most of all in {extreme}: copies that no "
        "kernel hid took {share} of the step.{others}",
        no="Copying was the bottleneck in {count}{seen}.",
        unresolved="Whether copying is the bottleneck of a training",
        measured="{seen}.",
        not_measured="",
    ),
    *(_rule(advice) for advice in ALL_ADVICE if advice.question),
)
