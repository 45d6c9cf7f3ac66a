"""Questions about the axis of devices: what an accelerator gains over the CPU, and what the gain goes with (A3, A5)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row, speedup
from gpu_report.findings.rule import VERDICT_OF, Outcome, Rule, Wording, not_measured, why_missing
from gpu_report.findings.scope import Group, Scope, device_in_words, has_whole_twin

CLEARLY_MORE: Final = 1.10
CONVOLUTION: Final = "convolution"
SHARE_APART: Final = 0.05

NO_ACCELERATOR: Final = "no variant of this study ran on an accelerator"


class Gain(NamedTuple):
    """What one workload gained on one device over its baseline."""

    group: Group
    row: Row
    baseline: Row
    speedup: Estimate


def gains(scope: Scope) -> list[Gain]:
    """Every measured speedup over a measured baseline, in the order of the table."""
    return [
        Gain(group, row, group.baseline, speedup(row, group.baseline))
        for group in scope.groups
        if group.baseline is not None
        for row in group.others
    ]


def along_batch_sizes(scope: Scope) -> bool:
    """Whether a workload is asked about at several batch sizes, so that the crossover is what follows."""
    sizes: dict[tuple[str, str], set[int]] = {}
    for row in scope.rows:
        sizes.setdefault((row["workload"], row["size"]), set()).add(row["batch_size"])
    return any(len(found) > 1 for found in sizes.values())


def _faster_at_one_batch_size(scope: Scope) -> Iterable[Outcome]:
    return [] if along_batch_sizes(scope) else _faster(scope)


def _faster_along_batch_sizes(scope: Scope) -> Iterable[Outcome]:
    return _faster(scope) if along_batch_sizes(scope) else []


def _faster(scope: Scope) -> Iterable[Outcome]:
    if len({row["device"] for row in scope.rows}) < 2:
        return [not_measured("the gain of an accelerator", NO_ACCELERATOR)]
    return [outcome for group in scope.groups for outcome in _faster_in(group, scope.rows)]


def _faster_in(group: Group, rows: Sequence[Row]) -> Iterable[Outcome]:
    measured = group.baseline
    if measured is None or not group.others:
        reason = why_missing(group.rows, "there is nothing to compare with")
        return [not_measured(group.title, reason, key=group.key)]
    several = len(group.others) > 1
    return [
        _gain_outcome(Gain(group, row, measured, speedup(row, measured)), rows, tell_device=several)
        for row in group.others
    ]


def _gain_outcome(gain: Gain, rows: Sequence[Row], *, tell_device: bool) -> Outcome:
    ratio = gain.speedup
    side = ratio.against(1.0)
    device = gain.row["device"]
    reduction = ratio.mapped(lambda times: 100 * (1 - 1 / times))
    return Outcome(
        verdict=VERDICT_OF[side],
        words={
            "subject": gain.group.title,
            "device": device_in_words(device),
            "baseline": device_in_words(gain.baseline["device"]),
            "speedup": phrases.times(ratio),
            "slowdown": phrases.times(ratio.mapped(lambda times: 1 / times)),
            "reduction": phrases.percent(reduction, short=True),
            "doubt": ratio.why_unclear("1"),
        },
        evidence=(
            phrases.evidence("speedup", phrases.times(ratio), gain.group.table, gain.row),
            phrases.evidence("time saved", phrases.percent(reduction), gain.group.table, gain.row),
            *(
                phrases.evidence("throughput", phrases.of_column(row, "throughput_per_s"), gain.group.table, row)
                for row in (gain.baseline, gain.row)
            ),
        ),
        key=gain.group.key + (f"_{device.replace(':', '')}" if tell_device else ""),
        gain=ratio if side == "above" else ratio.mapped(lambda times: 1 / times),
        advises=not has_whole_twin(gain.row, rows),
    )


def _one_gain_per_workload(scope: Scope) -> list[Gain]:
    """The gains on the first accelerator of the table, greatest first."""
    found = gains(scope)
    device = found[0].row["device"] if found else ""
    return sorted((gain for gain in found if gain.row["device"] == device), key=lambda gain: -gain.speedup.value)


def _compares_workloads(scope: Scope) -> bool:
    return len({row["workload"] for row in scope.rows}) > 1


def _gains_most(scope: Scope) -> Iterable[Outcome]:
    if not _compares_workloads(scope):
        return []
    ranked = _one_gain_per_workload(scope)
    if len(ranked) < 2:
        return [not_measured("the workload that gains most", _too_few(scope, ranked))]
    first, second = ranked[:2]
    ahead = first.speedup.over(second.speedup)
    side = ahead.against(CLEARLY_MORE)
    words = {
        "subject": first.group.title,
        "speedup": phrases.times(first.speedup),
        "second": second.group.title,
        "second_speedup": phrases.times(second.speedup, short=True),
        "device": device_in_words(first.row["device"]),
        "doubt": ahead.why_unclear("10 %"),
    }
    return [
        Outcome(
            verdict=VERDICT_OF[side],
            words=words,
            evidence=tuple(
                phrases.evidence(f"speedup of {gain.group.title}", phrases.times(gain.speedup), scope.table, gain.row)
                for gain in ranked
            ),
        )
    ]


def _convolutions(scope: Scope) -> Iterable[Outcome]:
    if not _compares_workloads(scope):
        return []
    shares = _convolution_shares(scope)
    ranked = [gain for gain in _one_gain_per_workload(scope) if gain.baseline["variant"] in shares]
    if len(ranked) < 2:
        return [not_measured("what the gain goes with", _too_few(scope, ranked))]
    by_share = sorted(ranked, key=lambda gain: -shares[gain.baseline["variant"]])
    doubt = _convolution_doubt(ranked, by_share, shares)
    agree = ranked[0] is by_share[0]
    return [
        Outcome(
            verdict="not resolved" if doubt else "yes" if agree else "no",
            words={
                "most": ranked[0].group.title,
                "speedup": phrases.times(ranked[0].speedup),
                "most_share": phrases.share(shares[ranked[0].baseline["variant"]]),
                "densest": by_share[0].group.title,
                "densest_share": phrases.share(shares[by_share[0].baseline["variant"]]),
                "baseline": device_in_words(ranked[0].baseline["device"]),
                "doubt": doubt,
            },
            evidence=tuple(
                phrases.evidence(
                    f"time in convolutions of {gain.group.title}",
                    phrases.share(shares[gain.baseline["variant"]]),
                    "category_shares",
                    gain.baseline,
                )
                for gain in ranked
            ),
        )
    ]


def _convolution_doubt(ranked: list[Gain], by_share: list[Gain], shares: dict[str, float]) -> str:
    ahead = ranked[0].speedup.over(ranked[1].speedup)
    if ahead.against(CLEARLY_MORE) != "above":
        return "no workload gains clearly more than the others"
    first, second = (shares[gain.baseline["variant"]] for gain in by_share[:2])
    return "the shares of convolutions hardly differ" if first - second < SHARE_APART else ""


def _convolution_shares(scope: Scope) -> dict[str, float]:
    """Share of convolutions in the time of each profiled variant; none at all is 0."""
    frame = scope.tables.category_shares
    profiled: dict[str, float] = dict.fromkeys(frame["variant"].tolist(), 0.0)
    chosen = frame[frame["category"] == CONVOLUTION]
    return profiled | dict(zip(chosen["variant"].tolist(), chosen["share"].tolist(), strict=True))


def _too_few(scope: Scope, ranked: list[Gain]) -> str:
    if len({row["device"] for row in scope.rows}) < 2:
        return NO_ACCELERATOR
    if ranked:
        return f"{ranked[0].group.title} alone has what this compares; it takes two workloads"
    return why_missing(scope.rows, "no workload has what this compares")


_FASTER: Final = Rule(
    name="faster",
    about="device",
    question="Does training run faster on the accelerator than on the CPU?",
    test=_faster_at_one_batch_size,
    threshold="Faster means that the whole interval of the speedup lies above 1, and the difference is"
    " significant beside the experiment's other comparisons (Holm).",
    wording=Wording(
        yes="{subject} trained {speedup} as fast on {device} as on {baseline}, which saved {reduction} of the time.",
        no="{subject} did not gain from {device}: there it took {slowdown} as long as on {baseline}.",
        unresolved="Whether {subject} trains faster on {device} than on {baseline} is not resolved, because {doubt};"
        " measured were {speedup} the speed.",
    ),
    advice={
        "yes": "Train {subject} on {device} instead of {baseline}.",
        "no": "Train {subject} on {baseline}; {device} costs time at this size.",
    },
)

RULES: Final = (
    _FASTER,
    replace(_FASTER, test=_faster_along_batch_sizes, advice={}),
    Rule(
        name="gains_most",
        about="device",
        question="Which workload gains most from the accelerator?",
        test=_gains_most,
        threshold="One gains clearly more if its speedup is above that of the next by more than 10 %, intervals"
        " included; less is of no use in choosing what to move.",
        wording=Wording(
            yes="{subject} gained most from {device}: {speedup} the speed, against {second_speedup} for {second}.",
            no="No workload gained clearly more than the others from {device}: {subject} ran {speedup}"
            " as fast and {second} {second_speedup}.",
            unresolved="Which workload gains most from {device} is not resolved, because {doubt}: {subject} ran"
            " {speedup}"
            " as fast and {second} {second_speedup}.",
        ),
    ),
    Rule(
        name="convolutions",
        about="device",
        question="Do convolutions explain which workload gains most?",
        test=_convolutions,
        threshold="They do if the workload that clearly gains most also spends the greatest share of its time on the"
        " CPU in convolutions, by at least 5 percentage points; this shows that the two go together, not why.",
        wording=Wording(
            yes="The workload that gained most, {most} at {speedup} the speed, is also the one with the most time"
            " in convolutions: {most_share} of its time on {baseline}.",
            no="Convolutions do not explain the gain: {most} gained most, {speedup} the speed, with"
            " {most_share} of its time on {baseline} in convolutions, while {densest} spent {densest_share} there.",
            unresolved="Whether convolutions explain the gain is not resolved, because {doubt}; {densest} spent"
            " the most"
            " time in them, {densest_share} of its time on {baseline}.",
        ),
    ),
)
