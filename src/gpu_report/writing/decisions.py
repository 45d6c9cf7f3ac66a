"""What to do: a symptom, the metric that shows it, the action, and the gain that was measured.

recommendations of the findings -> by symptom -> decision_table -> TableBlock
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from gpu_report.findings.finding import Finding, recommendations
from gpu_report.findings.scope import TRACE
from gpu_report.glossary import Metric, Row
from gpu_report.number_format import ratio
from gpu_report.writing.fields import Field
from gpu_report.writing.table_block import TableBlock, lay_out
from gpu_report.writing.tex import escape

RuleName = tuple[str, str]
"""What a rule is about, an axis or a chapter, and its name."""


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
            *((TRACE, rule) for rule in ("launch_bound", "accelerator_busy", "short_kernels")),
        ),
    ),
    Symptom(
        words="Throughput rises with the batch size",
        metric="throughput by batch size",
        rules=(("batch_size", "smaller"),),
    ),
    Symptom(words="The target quality comes late", metric="time to target", rules=(("batch_size", "quality"),)),
    Symptom(
        words="A small model takes as long as a larger one",
        metric="step time by model size",
        rules=(("size", "overhead"),),
    ),
    Symptom(
        words="Compiling takes longer than it saves", metric="break-even steps", rules=(("optimization", "preparing"),)
    ),
    Symptom(
        words="Memory runs out",
        metric="peak memory",
        rules=(("optimization", "saves"), (TRACE, "peak_memory")),
    ),
    Symptom(words="The step waits for copies", metric="exposed copies", rules=((TRACE, "pageable_copies"),)),
    Symptom(
        words="The host waits for the GPU in every step",
        metric="synchronizing calls",
        rules=((TRACE, "synchronising_calls"),),
    ),
    Symptom(words="Processes wait for each other", metric="communication", rules=((TRACE, "communication"),)),
    Symptom(words="Small batches train faster on the CPU", metric="speedup", rules=(("device", "crossover"),)),
)
"""In the order of the table where no gain was measured."""

_OTHER: Final = Symptom(words="Another value trains faster", metric="throughput", rules=())
_LEFT_OUT: Final = frozenset({("device", "faster")})
"""To train on a GPU at all is what the study begins with."""


def decisions(findings: Sequence[Finding], axes: Mapping[str, str], *, has_gpu: bool) -> list[Row]:
    """The recommendations by symptom, the greatest measured gain first.

    Where following one recommendation for a symptom gained something, those without a measured gain are left out, and
    of several for one workload those of smaller gain.

    Args:
        findings: All of one machine.
        axes: The axis of each experiment by its name; a chapter about the whole machine has none.
        has_gpu: Whether the machine measured on one; symptoms of a GPU are not named without.

    Returns:
        Rows with symptom, metric, action, and gain with its interval (NaN where none was measured).
    """
    by_symptom: dict[Symptom, list[Finding]] = {}
    for finding in recommendations(findings):
        rule = axes.get(finding.experiment, finding.experiment), finding.rule
        if rule not in _LEFT_OUT:
            symptom = next((one for one in SYMPTOMS if rule in one.rules and (has_gpu or not one.needs_gpu)), _OTHER)
            by_symptom.setdefault(symptom, []).append(finding)
    order = [*SYMPTOMS, _OTHER]
    ranked = sorted(by_symptom.items(), key=lambda item: (-(item[1][0].gain or 0.0), order.index(item[0])))
    return [
        _row(symptom, finding)
        for symptom, advised in ranked
        for finding in _best_of_each_workload([one for one in advised if one.gain]) or advised
    ]


def _best_of_each_workload(ranked: Sequence[Finding]) -> list[Finding]:
    best: dict[str, Finding] = {}
    for finding in ranked:
        about = next((each.variant for each in finding.evidence if each.variant), finding.id)
        best.setdefault(about.partition("-")[0], finding)
    return list(best.values())


def _row(symptom: Symptom, finding: Finding) -> Row:
    low, high = finding.gain_interval or (math.nan, math.nan)
    return {
        "symptom": symptom.words,
        "metric": symptom.metric,
        "action": finding.recommendation.rstrip("."),
        "gain": math.nan if finding.gain is None else finding.gain,
        "gain_low": low,
        "gain_high": high,
    }


def decision_table(rows: Sequence[Row], *, name: str, caption: str, source: str) -> TableBlock:
    """The decisions as a table in which each symptom is named once."""
    first = {str(row["symptom"]): row for row in reversed(rows)}

    def once(column: str, row: Row) -> str:
        return str(row[column]) if row is first[row["symptom"]] else ""

    return lay_out(
        rows,
        name=name,
        caption=escape(caption),
        fields=[
            Field(header="symptom", text=partial(once, "symptom"), width=0.2),
            Field(header="metric", text=partial(once, "metric"), width=0.15),
            Field(header="action", text=lambda row: str(row["action"]), width=0.4, longest=200),
        ],
        metrics=[Metric(column="gain", header="gain", show=ratio)],
        group=lambda row: row["symptom"],
        source=source,
    )
