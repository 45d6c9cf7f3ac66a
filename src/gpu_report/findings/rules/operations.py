"""Whether convolutions themselves gain more from an accelerator than the other operations of the same training (A5).

Time of a profiled step by kind of operation, on the baseline and on the accelerator -> how much less each takes there
"""

from collections.abc import Iterable, Mapping
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row
from gpu_report.findings.finding import Verdict
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured
from gpu_report.findings.rules.device import CLEARLY_MORE, CONVOLUTION, Gain, along_batch_sizes, gains
from gpu_report.findings.scope import Scope, device_in_words, key_of
from gpu_report.tables.bundle import rows_of

_TABLE: Final = "category_shares"

_Times = Mapping[str, float]
"""Milliseconds in one profiled step, by kind of operation."""


def _convolutions(scope: Scope) -> Iterable[Outcome]:
    if along_batch_sizes(scope):
        return []
    found = [outcome for gain in gains(scope) if (outcome := _outcome(scope, gain)) is not None]
    return found or [not_measured("what convolutions gain", "no training with convolutions ran on two devices")]


def _outcome(scope: Scope, gain: Gain) -> Outcome | None:
    """None where the training has no convolutions, as far as its traces tell."""
    before, after = (_step_times_ms(scope, row) for row in (gain.baseline, gain.row))
    if CONVOLUTION not in {*before, *after}:
        return None
    key = key_of(f"{gain.group.key} {gain.row['device']}")
    others = [kind for kind in before if after.get(kind, 0.0) > 0 and kind != CONVOLUTION]
    if not before.get(CONVOLUTION) or not after.get(CONVOLUTION) or not others:
        return not_measured(gain.group.title, "the traces do not tell the operations on both devices", key=key)
    convolutions = before[CONVOLUTION] / after[CONVOLUTION]
    rest = sum(before[kind] for kind in others) / sum(after[kind] for kind in others)
    ahead = _as_uncertain_as(gain.speedup, convolutions / rest)
    return Outcome(
        verdict=_verdict(ahead),
        words={
            "subject": gain.group.title,
            "device": device_in_words(gain.row["device"]),
            "baseline": device_in_words(gain.baseline["device"]),
            "convolutions": phrases.factor_alone(convolutions),
            "rest": phrases.factor_alone(rest),
            "before": phrases.seconds(before[CONVOLUTION] / 1000),
            "after": phrases.seconds(after[CONVOLUTION] / 1000),
            "doubt": _doubt(ahead),
        },
        evidence=tuple(
            phrases.evidence(f"{what} in a profiled step", phrases.seconds(time_ms / 1000), _TABLE, row)
            for row, times in ((gain.baseline, before), (gain.row, after))
            for what, time_ms in (
                ("convolutions", times[CONVOLUTION]),
                ("other operations", sum(times[kind] for kind in others)),
            )
        ),
        key=key,
    )


def _as_uncertain_as(speedup: Estimate, quotient: float) -> Estimate:
    """What was profiled once, with the relative interval of what was timed in several processes, and its doubts."""
    return speedup.mapped(lambda factor: quotient * factor / speedup.value)


def _verdict(ahead: Estimate) -> Verdict:
    if ahead.against(CLEARLY_MORE) == "above":
        return "yes"
    return "no" if ahead.against(1 / CLEARLY_MORE) == "below" else "not resolved"


def _doubt(ahead: Estimate) -> str:
    if ahead.doubts or not ahead.has_interval:
        return ahead.why_unclear("")
    return "the two differ by less than 10 %, or by no more than processes do"


def _step_times_ms(scope: Scope, row: Row) -> _Times:
    """Of a variant; nothing where its trace does not tell it."""
    profiled = {one["variant"]: int(one["steps"]) for one in rows_of(scope.tables.step_shares)}
    steps = profiled.get(row["variant"], 0)
    of_variant = [one for one in rows_of(scope.tables.category_shares) if one["variant"] == row["variant"]]
    return {one["category"]: float(one["self_ms"]) / steps for one in of_variant if steps and one["self_ms"] > 0}


RULES: Final = (
    Rule(
        name="operations",
        about="device",
        question="Do convolutions themselves gain more from the accelerator than the other operations?",
        test=_convolutions,
        threshold="They do if their time in a profiled step shrinks by a factor that is more than 10 % above that of"
        " all other operations which both devices run; within 10 % either way it is not resolved. The times are"
        " those of"
        " one profiled run on each device; their quotient is taken to be as uncertain as the speedup of the timed"
        " epochs, whose interval is laid around it.",
        wording=Wording(
            yes="The convolutions of {subject} gained more from {device} than its other operations: a step spent"
            " {after} in them instead of {before} on {baseline}, a gain of {convolutions}, against {rest} for the"
            " others.",
            no="The convolutions of {subject} gained less from {device} than its other operations: a step"
            " spent {after} in them instead of {before} on {baseline}, a gain of {convolutions}, against {rest} for"
            " the others.",
            unresolved="Whether the convolutions of {subject} gained more from {device} than its other operations"
            " is not resolved, because {doubt}: a step spent {after} in convolutions instead of {before} on"
            " {baseline}, a"
            " gain of {convolutions}, against {rest} for the others.",
        ),
    ),
)
