"""Questions about the axis of devices.

What does a GPU gain over the CPU, and from which batch size on is there a gain (A3, A5)? Do both
give the same losses and quality (A4)?
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import takewhile
from typing import Final

from gpu_report.answers.estimate import against_other, estimate, speedup
from gpu_report.answers.finding import Evidence, Verdict
from gpu_report.answers.phrases import CPU, as_share, evidence, percent_alone, shown, times
from gpu_report.answers.question import (
    Answer,
    decided,
    missing,
    not_measured,
    question,
    why_missing,
)
from gpu_report.answers.scope import Group, Scope, key_of
from gpu_report.glossary import Row
from gpu_report.printing.number_format import count
from gpu_report.study.variant import Variant
from gpu_report.tables.bundle import alike, grouped, rows_of
from gpu_report.words import (
    device_in_words,
    settings_in_words,
    titled,
)

AGREE_WITHIN_PERCENT: Final = 1.0

_NO_GPU: Final = "no configuration of this study ran on a GPU"
_CROSSINGS: Final[Mapping[str, Verdict]] = {
    "crosses": "yes",
    "accelerator always": "yes",
    "cpu always": "no",
}


def _on_one_device(scope: Scope) -> bool:
    return len({row["device"] for row in scope.rows}) < 2


def _along_batch_sizes(scope: Scope) -> bool:
    """Whether a workload was trained at several batch sizes, so that the crossover is what to act
    on.
    """
    batches = {(row["workload"], row["size"], row["batch_size"]) for row in scope.rows}
    return len(batches) > len({(workload, size) for workload, size, _ in batches})


@question("Does training run faster on the GPU than on the CPU?", "device")
def faster(scope: Scope) -> Iterator[Answer]:
    """Faster means that the whole interval of the speedup over the baseline is above 1, and the
    difference is significant among the experiment's comparisons (Holm). The CPU's fastest
    configuration is that of the highest throughput among those measured with the same model and
    batch.
    """
    if _on_one_device(scope):
        yield not_measured("the gain of a GPU", _NO_GPU)
        return
    may_advise = not _along_batch_sizes(scope)
    for group in scope.groups:
        baseline = group.baseline
        on_others = [
            row for row in group.others if baseline and row["device"] != baseline["device"]
        ]
        if baseline is None or not on_others:
            yield missing(group)
            continue
        for row in on_others:
            name = f"_{row['device'].replace(':', '')}" if len(on_others) > 1 else ""
            yield _faster(group, row, baseline, key=group.key + name, may_advise=may_advise)


def _faster(group: Group, after: Row, before: Row, *, key: str, may_advise: bool) -> Answer:
    subject, fast, slow = group.title, group.words(after), group.words(before)
    gain = speedup(after, before)
    saved = gain.mapped(lambda factor: 1 - 1 / factor)
    over_fastest, evidence_of_fastest = _over_fastest_cpu(group, after, before)
    advice: dict[Verdict, str] = {
        "yes": f"Train {subject} on {fast} instead of {slow}.",
        "no": f"Train {subject} on {slow}; {fast} costs time at this size.",
    }
    return decided(
        replace(group, key=key),
        gain,
        yes=f"{subject} trained {times(gain)} as fast on {fast} as on {slow}, which saved "
        f"{as_share(saved, short=True)} of the time",
        no=f"{subject} did not gain from {fast}: it took {times(gain.inverse)} as long as on "
        f"{slow}",
        whether=f"{subject} trains faster on {fast} than on {slow}",
        if_unclear=f"; it trained {times(gain)} as fast",
        measured=f"{over_fastest}.",
        evidence=(
            evidence("speedup", times(gain), group.table, after),
            evidence("time saved", as_share(saved), group.table, after),
            *(
                evidence("throughput", shown(row, "throughput_per_s"), group.table, row)
                for row in (before, after)
            ),
            *evidence_of_fastest,
        ),
        advice=advice if may_advise else None,
        gain=gain.inverse if gain.against(1.0) == "below" else gain,
    )


def _over_fastest_cpu(group: Group, after: Row, before: Row) -> tuple[str, list[Evidence]]:
    """The end of a sentence about a GPU, and its numbers, where the CPU's fastest configuration is
    another than the baseline.
    """
    on_cpu = [row for row in group.measured if row["device"] == CPU]
    fastest = max(on_cpu, key=lambda row: float(row["throughput_per_s"]), default=before)
    gain = against_other(after, "fastest_cpu_speedup", fastest)
    if fastest is before or not gain.known:
        return "", []
    settings = ", ".join(settings_in_words(fastest)) or "eager fp32"
    label = "speedup over the fastest CPU configuration"
    return (
        f"; over the CPU's fastest configuration, {settings}, the speedup is "
        f"{times(gain, short=True)}",
        [
            evidence(label, times(gain), group.table, after),
            evidence("throughput", shown(fastest, "throughput_per_s"), group.table, fastest),
        ],
    )


@question("From which batch size is the GPU faster than the CPU?", "device")
def crossover(scope: Scope) -> Iterator[Answer]:
    """There is one if the faster device changes once between the measured batch sizes, in favor of
    the GPU, and the whole interval of the crossing is between them; or if the GPU is faster at
    every one. Between two sizes the logarithm of the speedup is taken as a straight line in that of
    the batch. Every speedup with a quality flag has to be on one side of 1 with its interval
    widened; else the answer is the smallest batch from which every interval is above 1, if any.
    """
    found = [row for row in rows_of(scope.tables.crossovers) if row["experiment"] == scope.name]
    if not found and not _on_one_device(scope) and _along_batch_sizes(scope):
        yield not_measured("the crossover", why_missing(scope.rows, "it takes two batch sizes"))
    for row in found:
        yield _crossover(scope, row)


def _crossover(scope: Scope, crossing: Row) -> Answer:
    # A group of the experiment has the words of the crossing's, and those of its batch size.
    words = set(crossing["group"].split())
    compared = [
        (row, speedup(row, group.baseline))
        for group in scope.groups
        for row in group.others
        if row["device"] == crossing["device"]
        and words.issubset(row["group"].split())
        and group.baseline
    ]
    # Of one batch size the rows that are not faster come first.
    compared.sort(
        key=lambda pair: (int(pair[0]["batch_size"]), pair[1].against(1.0) != "above"),
        reverse=True,
    )
    hidden = [gain for _, gain in compared if gain.doubts and gain.against(1.0) == "unclear"]
    faster_from = [
        row["batch_size"]
        for row, _ in takewhile(lambda pair: pair[1].against(1.0) == "above", compared)
    ]
    subject = crossing["group"]
    if compared:
        on_device = [row for row in scope.rows if row["device"] == crossing["device"]]
        subject = titled(compared[0][0], on_device, leave_out=("device", "batch_size"))
    device, found = device_in_words(crossing["device"]), crossing["verdict"]
    smallest, largest = (count(crossing[end]).plain() for end in ("smallest", "largest"))
    everywhere = f"at every batch size measured, {smallest} to {largest}"
    size = shown(crossing, "batch_size")
    where = f"from batch size {size} on" if found == "crosses" else everywhere
    verdict = "too close to call" if hidden else _CROSSINGS.get(found, "too close to call")
    reason = hidden[0].why_unclear(1.0, "1") if hidden else "the speedup does not cross 1 just once"
    unclear = ""
    if verdict == "too close to call" and faster_from:
        verdict, where = "yes", f"from batch size {count(faster_from[-1]).plain()} on"
        for row, gain in compared[len(faster_from) :][:1]:
            unclear = f"; at batch size {count(row['batch_size']).plain()} " + (
                "it was slower"
                if gain.against(1.0) == "below"
                else f"it is too close to call, because {gain.why_unclear(1.0, '1')}"
            )
    statement = {
        "yes": f"{device} trained {subject} faster than the CPU {where}{unclear}.",
        "no": f"{device} trained {subject} more slowly than the CPU {everywhere}.",
    }.get(
        verdict,
        f"From which batch size {device} trains {subject} faster than the CPU is too close to call "
        f"between {smallest} and {largest}, because {reason}.",
    )
    return Answer(
        verdict=verdict,
        statement=statement,
        subject=subject,
        evidence=(
            Evidence(
                label=f"batch size at which both are equally fast, {crossing['group']}",
                value=size if estimate(crossing, "batch_size").known else str(found),
                table="crossovers",
                variant="",
            ),
            *(evidence("speedup", times(gain), scope.table, row) for row, gain in compared),
        ),
        key=key_of(f"{crossing['group']} {crossing['device']}"),
        advice=f"Train {subject} on {device} {where}." if verdict == "yes" and not unclear else "",
    )


@question("Do CPU and GPU give the same losses and quality?", "device")
def consistency(scope: Scope) -> Iterator[Answer]:
    """The same means that losses and quality differ by 1 % at most in every epoch, for the same
    seeds. Sums in another order change the last digits and training amplifies that, so a larger
    difference that another seed would make as well is too close to call.
    """
    if _on_one_device(scope):
        yield not_measured("the agreement of CPU and GPU", _NO_GPU)
        return
    differences = [
        row
        for row in rows_of(scope.tables.consistency)
        if not math.isnan(row["difference_percent"])
    ]
    for row in scope.rows:
        # Custom training loops are compared with float64 instead.
        if row["device"] != CPU and not row["begins_anew"]:
            compared = [each for each in differences if each["variant"] == row["variant"]]
            yield _agreement(scope, row, compared)


def _agreement(scope: Scope, row: Row, compared: Sequence[Row]) -> Answer:
    on_gpus = [other for other in scope.rows if other["device"] != CPU]
    title = titled(row, on_gpus, leave_out=("device",))
    # Short where that names the pair alone, else the whole name of the GPU's configuration.
    short = ("workload", "size", "batch_size", "device")
    is_alone = len(alike(scope.rows, row, *short)) == 1
    key = key_of("_".join(str(row[name]) for name in short) if is_alone else row["variant"])
    shared = [field.name for field in fields(Variant) if field.name != "device"]
    twins = [
        other for other in scope.rows if all(str(other[name]) == str(row[name]) for name in shared)
    ]
    if row["status"] != "ok" or not compared:
        reason = "no two of its processes compare"
        if len(twins) < 2:
            reason = "no CPU run has the same number of steps"
        return not_measured(title, why_missing(twins, reason), key=key)
    worst = max(compared, key=lambda each: float(each["difference_percent"]))
    difference, spread = float(worst["difference_percent"]), _spread_of_seeds(scope, worst, twins)
    verdict: Verdict = "no"
    if difference <= AGREE_WITHIN_PERCENT:
        verdict = "yes"
    elif not difference > spread:
        verdict = "too close to call"
    device, reference = (
        device_in_words(each) for each in (row["device"], worst["reference_device"])
    )
    where = f"{worst['metric'].replace('_', ' ')} after epoch {worst['epoch'] + 1}"
    most, by_seeds = f"{percent_alone(difference)} ({where})", percent_alone(spread)
    statement = {
        "yes": f"{title} gave the same on {device} as on {reference}: the largest difference is "
        f"{most}.",
        "no": f"{title} gave different results on {device} than on {reference}: the largest "
        f"difference is {most}, more than the spread between seeds ({by_seeds}).",
        "too close to call": f"{title} differs by up to {most} between {device} and {reference}, "
        f"which is more than 1 % but within the spread between seeds ({by_seeds}).",
    }
    return Answer(
        verdict=verdict,
        statement=statement[verdict],
        subject=title,
        evidence=[
            evidence(
                f"largest difference in {metric.replace('_', ' ')}",
                percent_alone(max(float(each["difference_percent"]) for each in rows)),
                "consistency",
                row,
            )
            for metric, rows in grouped(compared, lambda each: each["metric"]).items()
        ],
        key=key,
    )


def _spread_of_seeds(scope: Scope, compared: Row, twins: Sequence[Row]) -> float:
    """How far the seeds alone move a figure on the reference device, in per cent: its range over
    processes, of the median; NaN with one process, where no spread is known.
    """
    names = {each["variant"] for each in twins if each["device"] == compared["reference_device"]}
    frame = scope.tables.convergence
    of_epoch = frame[frame["variant"].isin(names) & (frame["epoch"] == compared["epoch"])]
    values = of_epoch[compared["metric"]].dropna()
    middle = float(values.median()) if len(values) > 1 else math.nan
    return 100 * float(values.max() - values.min()) / abs(middle) if middle else math.nan
