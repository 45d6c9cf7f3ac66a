"""Questions about copies between host and device: from which size they are fast, and what pinned memory brings (B1)."""

from collections.abc import Iterable
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row, estimate
from gpu_report.findings.finding import Evidence
from gpu_report.findings.rule import VERDICT_OF, Outcome, Rule, Wording, not_measured
from gpu_report.findings.scope import TRANSFER, Scope, device_in_words, key_of

HALF: Final = 0.5
PINNED: Final = "pinned"
PAGEABLE: Final = "pageable"

_WAYS: Final = {"to device": "to {device}", "to host": "from {device} to the host"}


def _ways(scope: Scope) -> dict[tuple[str, str], list[Row]]:
    """The copies by device and direction, by growing size."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(scope.rows, key=lambda row: int(row["bytes"])):
        found.setdefault((row["device"], row["direction"]), []).append(row)
    return found


def _small_copies(scope: Scope) -> Iterable[Outcome]:
    return [_small_copies_of(device, direction, rows) for (device, direction), rows in _ways(scope).items()]


def _small_copies_of(device: str, direction: str, rows: list[Row]) -> Outcome:
    key, way = key_of(f"{device} {direction}"), _WAYS[direction].format(device=device_in_words(device))
    pinned = [row for row in rows if row["memory"] == PINNED and _of_peak(row).known]
    if len(pinned) < 2:
        return not_measured(f"copies {way}", "it takes two sizes from pinned memory", key=key)
    smallest = pinned[0]
    share = _of_peak(smallest)
    side = share.against(HALF)
    fast = next((row for row in pinned if _of_peak(row).against(HALF) == "above"), None)
    return Outcome(
        verdict="yes" if side == "below" else "no" if side == "above" else "not resolved",
        words={
            "subject": way,
            "smallest": phrases.size(smallest["bytes"]),
            "least": phrases.percent(share.mapped(lambda part: 100 * part), short=True),
            "rate": phrases.of_column(max(rows, key=_bandwidth), "bandwidth_gb_per_s", short=True),
            "fast": f"half of that takes copies of {phrases.size(fast['bytes'])}" if fast else "no size reached half",
            "doubt": share.why_unclear("half of the peak"),
        },
        evidence=_bandwidths(pinned),
        key=key,
    )


def _of_peak(row: Row) -> Estimate:
    """The bandwidth over the highest of its direction."""
    peak = row["bandwidth_gb_per_s"] / row["share_of_peak"]
    return estimate(row, "bandwidth_gb_per_s").mapped(lambda rate: rate / peak)


def _bandwidth(row: Row) -> float:
    return float(row["bandwidth_gb_per_s"])


def _pinned(scope: Scope) -> Iterable[Outcome]:
    return [_pinned_of(device, direction, rows) for (device, direction), rows in _ways(scope).items()]


def _pinned_of(device: str, direction: str, rows: list[Row]) -> Outcome:
    key, way = key_of(f"{device} {direction}"), _WAYS[direction].format(device=device_in_words(device))
    by_size = {memory: {row["bytes"]: row for row in rows if row["memory"] == memory} for memory in (PINNED, PAGEABLE)}
    both = sorted(by_size[PINNED].keys() & by_size[PAGEABLE].keys())
    if not both:
        return not_measured(f"copies {way}", "no size was copied from both kinds of memory", key=key)
    pinned, pageable = (by_size[memory][both[-1]] for memory in (PINNED, PAGEABLE))
    ratio = estimate(pinned, "bandwidth_gb_per_s").over(estimate(pageable, "bandwidth_gb_per_s"))
    if not ratio.known:
        return not_measured(f"copies {way}", "their bandwidth is not known", key=key)
    side = ratio.against(1.0)
    return Outcome(
        verdict=VERDICT_OF[side],
        words={
            "subject": way,
            "size": phrases.size(both[-1]),
            "ratio": phrases.times(ratio),
            "pinned": phrases.of_column(pinned, "bandwidth_gb_per_s", short=True),
            "pageable": phrases.of_column(pageable, "bandwidth_gb_per_s", short=True),
            "doubt": ratio.why_unclear("1"),
        },
        evidence=_bandwidths([pageable, pinned]),
        key=key,
    )


def _bandwidths(rows: Iterable[Row]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            label=f"bandwidth {row['direction']}, {row['memory']}, {phrases.size(row['bytes'])}",
            value=phrases.of_column(row, "bandwidth_gb_per_s"),
            table="transfers",
            variant="",
        )
        for row in rows
        if estimate(row, "bandwidth_gb_per_s").known
    )


RULES: Final = (
    Rule(
        name="small_copies",
        about=TRANSFER,
        question="Do small copies waste the link between host and device?",
        test=_small_copies,
        threshold="They waste it if the smallest size, from pinned memory, reaches less than half of the highest"
        " bandwidth of its direction, intervals included: then starting a copy takes longer than the copy.",
        wording=Wording(
            yes="Small copies {subject} waste the link: those of {smallest} reached {least} of the highest"
            " bandwidth, {rate}; {fast}.",
            no="Even copies of {smallest} {subject} reached {least} of the highest bandwidth, {rate}.",
            unresolved="Whether small copies {subject} waste the link is not resolved, because {doubt}: those of"
            " {smallest} reached {least} of the highest bandwidth, {rate}.",
        ),
    ),
    Rule(
        name="pinned",
        about=TRANSFER,
        question="Does pinned memory make copies faster?",
        test=_pinned,
        threshold="It does if the ratio of both bandwidths at the largest size is above 1 with the most and the least"
        " that their intervals allow. What a training gains is another question, told where it was trained with it.",
        wording=Wording(
            yes="Pinned memory made copies {subject} faster: {pinned} with copies of {size}, {ratio} the"
            " {pageable} from pageable memory.",
            no="Pinned memory made copies {subject} slower: {pinned} with copies of {size}, {ratio} the"
            " {pageable} from pageable memory.",
            unresolved="Whether pinned memory makes copies {subject} faster is not resolved, because {doubt}: {pinned}"
            " with copies of {size}, against {pageable} from pageable memory.",
        ),
    ),
)
