"""Questions about the parts of a step where workloads are compared: which phase, and how much convolution (C3)."""

from collections.abc import Iterable, Mapping
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Row
from gpu_report.findings.finding import Evidence
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured
from gpu_report.findings.scope import Group, Scope
from gpu_report.tables.bundle import rows_of

HALF: Final = 0.5
_SHOWN: Final = ("forward", "backward", "optimizer")

_Phases = Mapping[str, Row]


def _of(scope: Scope, group: Group) -> list[tuple[Row, _Phases]]:
    """The phases of each profiled variant, by name."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows_of(scope.tables.phases):
        if row["share"] == row["share"]:
            found.setdefault(row["variant"], {})[row["phase"]] = row
    return [(row, found[row["variant"]]) for row in group.measured if row["variant"] in found]


def _why_none(scope: Scope, group: Group) -> str:
    profiled = set(scope.tables.step_shares["variant"])
    refused = [row["variant"] for row in group.measured if row["variant"] in profiled]
    return f"the trace of {refused[0]} is not reliable" if refused else "no variant of it was profiled"


def _backward(scope: Scope) -> Iterable[Outcome]:
    return [_backward_in(scope, group) for group in scope.groups]


def _backward_in(scope: Scope, group: Group) -> Outcome:
    profiled = _of(scope, group)
    if not profiled:
        return not_measured(group.title, _why_none(scope, group), key=group.key)
    shares = {str(row["variant"]): _share(phases, "backward") for row, phases in profiled}
    above = sum(share > HALF for share in shares.values())
    return Outcome(
        verdict="yes" if above == len(shares) else "no",
        words={
            "count": phrases.how_many(above, len(shares), "workload"),
            "shares": "; ".join(_shares(row, phases) for row, phases in profiled),
        },
        evidence=tuple(_evidence("backward", shares[row["variant"]], row) for row, _ in profiled),
        key=group.key,
    )


def _shares(row: Row, phases: _Phases) -> str:
    parts = ", ".join(f"{name} {phrases.share(_share(phases, name))}" for name in _SHOWN)
    return f"{row['workload_title']} {parts}"


def _share(phases: _Phases, name: str) -> float:
    """A phase that took no time has no row."""
    return float(phases[name]["share"]) if name in phases else 0.0


def _convolutions(scope: Scope) -> Iterable[Outcome]:
    return [_convolutions_in(scope, group) for group in scope.groups]


def _convolutions_in(scope: Scope, group: Group) -> Outcome:
    profiled = _of(scope, group)
    shares = [(row, _in_convolutions(phases)) for row, phases in profiled]
    if not shares:
        return not_measured(group.title, _why_none(scope, group), key=group.key)
    mostly = [pair for pair in shares if pair[1] > HALF]
    return Outcome(
        verdict="yes" if mostly else "no",
        words={
            "mostly": phrases.how_many(len(mostly), len(shares), "workload"),
            "shares": "; ".join(f"{row['workload_title']} {phrases.share(share)}" for row, share in shares),
        },
        evidence=tuple(_evidence("convolutions", share, row) for row, share in shares),
        key=group.key,
    )


def _in_convolutions(phases: _Phases) -> float:
    return sum(float(row["share"] * row["convolution_share"]) for row in phases.values() if row["share"] > 0)


def _evidence(what: str, share: float, row: Row) -> Evidence:
    return phrases.evidence(f"share of the step's time in {what}", phrases.share(share), "phases", row)


RULES: Final = (
    Rule(
        name="backward",
        about="workload",
        question="Does the backward pass take most of a step in every workload?",
        test=_backward,
        threshold="Most means more than half of the time on the device, in one profiled run of each workload; shares of"
        " one run have no interval, so that those near half say little.",
        wording=Wording(
            yes="The backward pass took more than half of the step in {count}: {shares}.",
            no="The backward pass took more than half of the step in {count}: {shares}.",
        ),
    ),
    Rule(
        name="convolutions",
        about="workload",
        question="Do convolutions take most of a step in any workload?",
        test=_convolutions,
        threshold="They do where they take more than half of the time on the device, in one profiled run of each"
        " workload; shares of one run have no interval, so that those near half say little.",
        wording=Wording(
            yes="Convolutions took more than half of the step in {mostly}: {shares}.",
            no="Convolutions took more than half of the step in {mostly}: {shares}.",
        ),
    ),
)
