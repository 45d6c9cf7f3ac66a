"""Questions about the model's size: how time grows with parameters, and what small models gain (E3)."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row, estimate
from gpu_report.findings.rule import VERDICT_OF, Outcome, Rule, Wording, not_measured, per_group, why_missing
from gpu_report.findings.rules.device import CLEARLY_MORE
from gpu_report.findings.scope import CPU, EFFICIENCY, Group, Scope, device_in_words, in_words
from gpu_report.tables.bundle import rows_of
from gpu_report.variant import Variant

_TWO_SIZES: Final = "it takes two sizes with different numbers of parameters"


def _by_parameters(rows: list[Row]) -> list[Row]:
    """The variants by growing number of parameters, one for each number."""
    unique = {row["parameters"]: row for row in reversed(rows)}
    return [unique[parameters] for parameters in sorted(unique)]


def _time_growth(group: Group) -> Outcome:
    rows = _by_parameters(group.measured)
    if len(rows) < 2:
        return not_measured(group.title, why_missing(group.rows, _TWO_SIZES), key=group.key)
    return _growth_outcome(group, rows[0], rows[-1], limit=_parameter_ratio(rows[0], rows[-1]))


def _overhead(group: Group) -> Outcome:
    rows = _by_parameters(group.measured)
    if len(rows) < 2:
        return not_measured(group.title, why_missing(group.rows, _TWO_SIZES), key=group.key)
    return _growth_outcome(group, rows[0], rows[1], limit=math.sqrt(_parameter_ratio(rows[0], rows[1])))


def _growth_outcome(group: Group, small: Row, large: Row, *, limit: float) -> Outcome:
    growth = estimate(large, "step_time_ms").over(estimate(small, "step_time_ms"))
    side = growth.against(limit)
    return Outcome(
        verdict="yes" if side == "below" else "no" if side == "above" else "not resolved",
        words={
            "subject": group.title,
            "small": group.value_in_words(small),
            "large": group.value_in_words(large),
            "parameters": phrases.count(small["parameters"]),
            "large_parameters": phrases.count(large["parameters"]),
            "more": phrases.factor_alone(_parameter_ratio(small, large)),
            "growth": phrases.times(growth),
            "limit": phrases.factor_alone(limit),
            "doubt": growth.why_unclear(phrases.factor_alone(limit)),
        },
        evidence=phrases.evidence_of_columns([small, large], {"step_time_ms": "time per step"}, group.table),
        key=group.key,
    )


def _parameter_ratio(small: Row, large: Row) -> float:
    return float(large["parameters"] / small["parameters"])


def _small_gain(scope: Scope) -> Iterable[Outcome]:
    devices = [name for name in dict.fromkeys(row["device"] for row in scope.rows) if name != CPU]
    if not devices or all(row["device"] != CPU for row in scope.rows):
        return [not_measured("what small models gain", "it takes the same sizes on the CPU and on an accelerator")]
    workloads = dict.fromkeys(row["workload"] for row in scope.rows)
    return [_small_gain_of(scope, workload, device) for device in devices for workload in workloads]


def _small_gain_of(scope: Scope, workload: str, device: str) -> Outcome:
    rows = [row for row in scope.rows if row["workload"] == workload]
    title = rows[0]["workload_title"]
    key = f"{workload}_{device.replace(':', '')}"
    measured = [row for row in rows if row["status"] == "ok"]
    on_cpu = {_twin(row): row for row in measured if row["device"] == CPU}
    pairs = _by_parameters([row for row in measured if row["device"] == device and _twin(row) in on_cpu])
    if len(pairs) < 2:
        return not_measured(f"what small models of {title} gain", why_missing(rows, _TWO_SIZES), key=key)
    small, large = (_gain(row, on_cpu[_twin(row)]) for row in (pairs[0], pairs[-1]))
    ahead = large.over(small)
    side = ahead.against(1.0)
    return Outcome(
        verdict=VERDICT_OF[side],
        words={
            "subject": title,
            "device": device_in_words(device),
            "small": in_words("size", pairs[0]["size"]),
            "large": in_words("size", pairs[-1]["size"]),
            "small_gain": phrases.times(small),
            "large_gain": phrases.times(large, short=True),
            "doubt": ahead.why_unclear("equal gains"),
        },
        evidence=tuple(
            phrases.evidence(
                f"speedup with {in_words('size', row['size'])}",
                phrases.times(_gain(row, on_cpu[_twin(row)])),
                scope.table,
                row,
            )
            for row in pairs
        ),
        key=key,
    )


def _peak_use(scope: Scope) -> Iterable[Outcome]:
    use = {row["variant"]: row for row in rows_of(scope.tables.efficiency)}
    groups = [group for group in scope.groups if any(row["device"] != CPU for row in group.rows)]
    return [_peak_use_in(group, use) for group in groups] or [
        not_measured("how much of an accelerator's peak small models use", "no accelerator trained several sizes")
    ]


def _peak_use_in(group: Group, use: Mapping[str, Row]) -> Outcome:
    rows = [{**row, **use[row["variant"]]} for row in _by_parameters(group.measured) if row["variant"] in use]
    known = [row for row in rows if row["share_of_peak"] > 0]
    if len(known) < 2:
        reason = why_missing(group.rows, "it takes two sizes whose share of the peak is known")
        return not_measured(group.title, reason, key=group.key)
    small, large = known[0], known[-1]
    ratio = estimate(small, "share_of_peak").over(estimate(large, "share_of_peak"))
    side = ratio.against(1 / CLEARLY_MORE)
    return Outcome(
        verdict="yes" if side == "below" else "no" if side == "above" else "not resolved",
        words={
            "subject": group.title,
            "small": group.value_in_words(small),
            "large": group.value_in_words(large),
            "small_share": phrases.of_column(small, "share_of_peak"),
            "large_share": phrases.of_column(large, "share_of_peak", short=True),
            "doubt": ratio.why_unclear("10 % more"),
        },
        evidence=phrases.evidence_of_columns(
            known, {"share_of_peak": "share of the measured peak"}, EFFICIENCY, first=[small, large]
        ),
        key=group.key,
    )


_FIELDS: Final = tuple(field.name for field in fields(Variant))
"""What a variant is made of; each is a column of the tables."""


def _twin(row: Row) -> tuple[str, ...]:
    """What a variant shares with its twin on another device."""
    return tuple(str(row[name]) for name in _FIELDS if name != "device")


def _gain(row: Row, on_cpu: Row) -> Estimate:
    return estimate(row, "throughput_per_s").over(estimate(on_cpu, "throughput_per_s"))


RULES: Final = (
    Rule(
        name="time_growth",
        about="size",
        question="Does the time of a step grow more slowly than the number of parameters?",
        test=per_group(_time_growth),
        threshold="More slowly means that the time of a step, intervals included, grows by a smaller factor than the"
        " parameters do, from the smallest to the largest model.",
        wording=Wording(
            yes="Time grew more slowly than parameters for {subject}: with {more} the parameters,"
            " {large_parameters} instead of {parameters}, a step took {growth} as long.",
            no="Time grew faster than parameters for {subject}: with {more} the parameters,"
            " {large_parameters} instead of {parameters}, a step took {growth} as long.",
            unresolved="Whether time grows more slowly than parameters for {subject} is not resolved, because {doubt}:"
            " with {more} the parameters, a step took {growth} as long.",
        ),
    ),
    Rule(
        name="overhead",
        about="size",
        question="Is the smallest model bound by fixed costs per step?",
        test=per_group(_overhead),
        threshold="It is if the next larger model takes less than the square root of the factor in parameters longer:"
        " then more than half of the growth, on a logarithmic scale, is hidden behind costs that do not grow.",
        wording=Wording(
            yes="Fixed costs bound the smallest model of {subject}: {large} has {more} the parameters of"
            " {small}, yet a step took only {growth} as long.",
            no="Fixed costs do not bound the smallest model of {subject}: {large} has {more} the parameters"
            " of {small}, and a step took {growth} as long.",
            unresolved="Whether fixed costs bound the smallest model of {subject} is not resolved, because {doubt}:"
            " {large} has {more} the parameters of {small}, and a step took {growth} as long.",
        ),
        advice={
            "yes": "Give each step of {subject} with {small} more work, for instance larger batches.",
        },
    ),
    Rule(
        name="small_gain",
        about="size",
        question="Do small models gain less from the accelerator than large ones?",
        test=_small_gain,
        threshold="Less means that the whole interval of the ratio of the two speedups lies on one side of 1.",
        wording=Wording(
            yes="Small models of {subject} gained less from {device}: {small_gain} the speed of the CPU with"
            " {small}, against {large_gain} with {large}.",
            no="Small models of {subject} gained more from {device}: {small_gain} the speed of the CPU with"
            " {small}, against {large_gain} with {large}.",
            unresolved="Whether small models of {subject} gain less from {device} is not resolved, because {doubt}:"
            " {small_gain} the speed of the CPU with {small}, against {large_gain} with {large}.",
        ),
    ),
    Rule(
        name="peak_use",
        about="size",
        question="Does the smallest model leave more of the accelerator's peak unused than the largest?",
        test=_peak_use,
        threshold="It does if the largest reaches more than 10 % more of the measured peak than the smallest, intervals"
        " included: then the two differ in how well they use the device, and not in their arithmetic alone.",
        wording=Wording(
            yes="{subject} used less of the measured peak with {small}, {small_share}, than with {large},"
            " {large_share}.",
            no="{subject} used no less of the measured peak with {small}, {small_share}, than with {large},"
            " {large_share}.",
            unresolved="Whether {subject} uses less of the measured peak with {small} than with {large} is not"
            " resolved,"
            " because {doubt}: {small_share} against {large_share}.",
        ),
    ),
)
