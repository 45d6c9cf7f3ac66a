"""What to do: a symptom, the metric that shows it, the action, and the gain that was measured.

recommendations of the findings -> by symptom -> rows of a table
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpu_report.findings.finding import Finding, recommendations
from gpu_report.findings.scope import DDP_OPTIONS, TRACE
from gpu_report.glossary import Row

RuleName = tuple[str, str]
"""What a rule is about, such as an axis or a chapter, and its name."""


@dataclass(frozen=True, kw_only=True)
class Symptom:
    """What a user sees, the metric that shows it, and the rules whose recommendations treat it."""

    words: str
    metric: str
    rules: tuple[RuleName, ...]
    needs_gpu: bool = False


SYMPTOMS: Final = (
    Symptom(
        words="The loop waits for data",
        metric="data wait",
        rules=(("workers", "enough"), ("workers", "help"), (TRACE, "data_loader")),
    ),
    Symptom(
        words="Matrix products run without tensor cores",
        metric="time on tensor cores",
        needs_gpu=True,
        rules=(("precision", "best"), (TRACE, "tensor_cores")),
    ),
    Symptom(
        words="The GPU is idle between kernels",
        metric="kernel-active time",
        needs_gpu=True,
        rules=(
            ("optimization", "best"),
            *((TRACE, rule) for rule in ("launch_bound", "accelerator_busy")),
        ),
    ),
    Symptom(
        words="Kernels are shorter than their launch",
        metric="short kernels",
        needs_gpu=True,
        rules=((TRACE, "short_kernels"),),
    ),
    Symptom(
        words="Throughput rises with the batch size",
        metric="throughput by batch size",
        rules=(("batch_size", "smaller"),),
    ),
    Symptom(
        words="The target quality comes late",
        metric="time to target",
        rules=(("batch_size", "quality"),),
    ),
    Symptom(
        words="A small model takes as long as a larger one",
        metric="step time by model size",
        rules=(("size", "overhead"),),
    ),
    Symptom(
        words="Compiling takes longer than it saves",
        metric="break-even steps",
        rules=(("optimization", "compiling"),),
    ),
    Symptom(
        words="Memory runs out",
        metric="peak memory",
        rules=(("optimization", "saves"), (TRACE, "peak_memory")),
    ),
    Symptom(
        words="The step waits for copies",
        metric="exposed copies",
        rules=((TRACE, "pageable_copies"),),
    ),
    Symptom(
        words="The host waits for the GPU in every step",
        metric="synchronizing calls",
        rules=((TRACE, "synchronising_calls"),),
    ),
    Symptom(
        words="One GPU is not fast enough",
        metric="weak efficiency",
        needs_gpu=True,
        rules=(("parallelism", "pays"),),
    ),
    Symptom(
        words="Gradient communication delays the step",
        metric="exposed communication",
        rules=((DDP_OPTIONS, "setting"),),
    ),
    Symptom(
        words="Processes wait for each other",
        metric="communication",
        rules=((TRACE, "communication"),),
    ),
    Symptom(
        words="Small batches train faster on the CPU",
        metric="speedup",
        rules=(("device", "crossover"),),
    ),
)
"""In the order of the table where no gain was measured."""

_OTHER: Final = Symptom(words="Another value trains faster", metric="throughput", rules=())
_LEFT_OUT: Final = frozenset({("device", "faster")})
"""To train on a GPU at all is what the study begins with."""


def decisions(
    findings: Sequence[Finding],
    about: Mapping[str, str],
    *,
    workloads: Mapping[str, str],
    has_gpu: bool,
) -> list[Row]:
    """The recommendations by symptom, the greatest measured gain first.

    Where following one recommendation for a symptom gained something, those without a measured gain
    are left out, of several for one workload those of smaller gain, and those of traces if an
    experiment gained something with that workload.

    Args:
        findings: All of one machine.
        about: What the rows of each experiment are about, by its name; a chapter about the whole
            machine has none.
        workloads: The workload of each variant, by its name.
        has_gpu: Whether the machine measured on one; symptoms of a GPU are not named without.

    Returns:
        Rows with `group`, the symptom that all rows about it share; `symptom` and `metric`, empty
        but in the first of these; action; and gain with its interval (NaN where none was measured).
    """
    by_symptom: dict[Symptom, list[Finding]] = {}
    for finding in recommendations(findings):
        rule = about.get(finding.experiment, finding.experiment), finding.rule
        if rule not in _LEFT_OUT:
            symptom = next(
                (one for one in SYMPTOMS if rule in one.rules and (has_gpu or not one.needs_gpu)),
                _OTHER,
            )
            by_symptom.setdefault(symptom, []).append(finding)
    chosen = {symptom: _chosen(advised, workloads) for symptom, advised in by_symptom.items()}
    order = [*SYMPTOMS, _OTHER]
    return [
        _row(symptom, finding, is_first=index == 0)
        for symptom in sorted(
            chosen, key=lambda symptom: (-(chosen[symptom][0].gain or 0.0), order.index(symptom))
        )
        for index, finding in enumerate(chosen[symptom])
    ]


def _chosen(advised: Sequence[Finding], workloads: Mapping[str, str]) -> Sequence[Finding]:
    """Of one symptom's ranked advice what to show: the best of each workload, an experiment's
    rather than a trace's.
    """
    gained = [one for one in advised if one.gain]
    best: dict[str, Finding] = {}
    for finding in sorted(gained, key=lambda one: one.experiment == TRACE):
        # The evidence of a trace's gain is last: its advice may be most urgent in another workload.
        decisive = reversed(finding.evidence) if finding.experiment == TRACE else finding.evidence
        best.setdefault(
            next((workloads[each.variant] for each in decisive if each.variant), finding.id),
            finding,
        )
    return [one for one in gained if one in best.values()] or advised


def _row(symptom: Symptom, finding: Finding, *, is_first: bool) -> Row:
    low, high = finding.gain_interval or (math.nan, math.nan)
    return {
        "group": symptom.words,
        "symptom": symptom.words if is_first else "",
        "metric": symptom.metric if is_first else "",
        "action": finding.recommendation.rstrip("."),
        "gain": math.nan if finding.gain is None else finding.gain,
        "gain_low": low,
        "gain_high": high,
    }
