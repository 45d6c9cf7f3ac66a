"""Questions about a workload's own loops by their number of points: which device is faster, what of a pass is fixed?"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row, estimate
from gpu_report.findings.finding import Verdict
from gpu_report.findings.rule import VERDICT_OF, Outcome, Rule, Wording, not_measured, why_missing
from gpu_report.findings.rules.own_loops import ABOVE_ONE, passes_of, workloads_of
from gpu_report.findings.scope import CPU, OWN_LOOPS, Group, Scope, device_in_words, optimization_in_words
from gpu_report.tables.bundle import rows_of

HALF: Final = 0.5


def _devices(scope: Scope) -> Iterable[Outcome]:
    """The fastest loop of each device, at each number of points that several devices trained, by workload."""
    found = [
        _devices_in(
            [row for row in scope.rows if row["workload"] == workload],
            subject=title,
            key=key,
            table=scope.table,
        )
        for workload, title, key in workloads_of(scope)
    ]
    return [outcome for outcome in found if outcome]


def _devices_in(rows: Sequence[Row], *, subject: str, key: str, table: str) -> Outcome | None:
    """None where no number of points was asked of two devices."""
    pairs = _fastest_pairs([row for row in rows if row["status"] == "ok"])
    if not pairs:
        asked = bool(_fastest_pairs(rows))
        return not_measured(subject, why_missing(rows, "no size was trained on two"), key=key) if asked else None
    ratios = [estimate(other, "throughput_per_s").over(estimate(cpu, "throughput_per_s")) for cpu, other in pairs]
    sides = [ratio.against(1.0) for ratio in ratios]
    unclear = next((ratio for ratio, side in zip(ratios, sides, strict=True) if side == "unclear"), None)
    verdict: Verdict = "no" if "below" in sides else "not resolved" if unclear else "yes"
    told = [_pair_in_words(*pair, ratio) for pair, ratio in zip(pairs, ratios, strict=True)]
    accelerators = {other["device"] for _, other in pairs}
    return Outcome(
        verdict=verdict,
        words={
            "subject": subject,
            "device": device_in_words(accelerators.pop()) if len(accelerators) == 1 else "an accelerator",
            "pairs": "; ".join(told),
            "doubt": unclear.why_unclear("1") if unclear else "",
        },
        evidence=phrases.evidence_of_columns(
            [row for pair in pairs for row in pair], {"throughput_per_s": "throughput"}, table
        ),
        key=key,
    )


def _fastest_pairs(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """At each number of points that both have, the fastest of the CPU and that of the accelerators."""
    pairs = []
    for points in sorted({row["batch_size"] for row in rows}):
        alike = [row for row in rows if row["batch_size"] == points]
        sides = [[row for row in alike if (row["device"] == CPU) is on_cpu] for on_cpu in (True, False)]
        if all(sides):
            cpu, other = (max(side, key=lambda row: float(row["throughput_per_s"])) for side in sides)
            pairs.append((cpu, other))
    return pairs


def _pair_in_words(cpu: Row, other: Row, ratio: Estimate) -> str:
    return (
        f"{phrases.times(ratio, short=True)} over {phrases.count(cpu['batch_size'])} points"
        f" ({optimization_in_words(other['options'])} against {optimization_in_words(cpu['options'])})"
    )


def _flat(scope: Scope) -> Iterable[Outcome]:
    loops = {row["variant"]: row for row in rows_of(scope.tables.own_loops)}
    return [_flat_in(group, loops) for group in scope.groups]


def _flat_in(group: Group, loops: Mapping[str, Row]) -> Outcome:
    rows = [{**row, **loops[row["variant"]]} for row in group.measured if row["variant"] in loops]
    if len(rows) < 2:
        return not_measured(group.title, why_missing(group.rows, "it takes two sizes"), key=group.key)
    fewest, after, most = rows[0], rows[1], rows[-1]
    fixed = _fixed_share(fewest, after)
    side = fixed.against(HALF)
    return Outcome(
        verdict=VERDICT_OF[side],
        words={
            "subject": group.title,
            "fewest": phrases.count(fewest["points"]),
            "after": phrases.count(after["points"]),
            "pass": phrases.of_column(fewest, "pass_us"),
            "pass_after": phrases.of_column(after, "pass_us", short=True),
            "fixed": phrases.percent(fixed.mapped(lambda share: 100 * min(max(share, 0.0), 1.0)), short=True),
            "most": _most_in_words(most) if most is not after else "",
            "doubt": fixed.why_unclear("a half"),
        },
        evidence=passes_of(rows),
        key=group.key,
    )


def _fixed_share(fewest: Row, after: Row) -> Estimate:
    """Of the time t of n points, what does not grow with them: (k - g) / (k - 1), where k n points take g t.

    The time is taken for a fixed part and one that is proportional to the points.
    """
    factor = after["points"] / fewest["points"]
    growth = estimate(after, "pass_us").over(estimate(fewest, "pass_us"))
    return growth.mapped(lambda times: (factor - times) / (factor - 1))


def _most_in_words(row: Row) -> str:
    """A sentence, with the space before it."""
    return (
        f" Over {phrases.count(row['points'])} it took {phrases.of_column(row, 'pass_us', short=True)}{_readings(row)}."
    )


def _readings(row: Row) -> str:
    if math.isnan(row["readings"]):
        return ""
    return f", {phrases.factor_alone(row['readings'])} the time to read them once"


RULES: Final = (
    *(
        Rule(
            name="devices",
            about=OWN_LOOPS + axis,
            question="With the fastest loop of each device, which device is faster?",
            test=_devices,
            threshold=ABOVE_ONE,
            wording=Wording(
                yes="With the fastest loop of each, {device} was faster than the CPU for {subject}: {pairs}.",
                no="With the fastest loop of each, {device} was not always faster than the CPU for {subject}: {pairs}.",
                unresolved="Whether {device} is faster than the CPU for {subject} with the fastest loop of each stays"
                " open, because {doubt}: {pairs}.",
            ),
        )
        for axis in ("optimization", "batch_size")
    ),
    Rule(
        name="flat",
        about=OWN_LOOPS + "batch_size",
        question="How much of the time of few points is fixed, whatever their number?",
        test=_flat,
        threshold="Most of it is if more than half is, with the most and the least that both intervals allow. From the"
        " next larger set the time is taken apart into a fixed part, for launching and waiting, and one that is"
        " proportional to the points.",
        wording=Wording(
            yes="Most of the time of few points is fixed for {subject}: a pass over {fewest} took {pass}, over"
            " {after} {pass_after}, so that {fixed} of the former does not grow with the points.{most}",
            no="Most of the time of few points is that of the points for {subject}: a pass over {fewest} took"
            " {pass}, over {after} {pass_after}, so that {fixed} of the former does not grow with the points.{most}",
            unresolved="Whether most of the time of few points is fixed is not resolved for {subject}, because"
            " {doubt}: a"
            " pass over {fewest} took {pass}, over {after} {pass_after}.",
        ),
    ),
)
