"""How the time of measuring a study divides: `python -m benchmarks.study_time [FOLDER ...]`.

records and when they were written -> one Span per variant -> seconds by part, and the stretches without interruption

A folder is one machine's results; without one, every machine in results/machines. A variant begins at the second that
its record names, so that its time is up to a second too long where the file system keeps fractions. The calibration and
the reports are not in it.
"""

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final

from gpu_report.errors import GpuReportError
from gpu_report.records import Record, read_record
from gpu_report.shown_machines import MACHINES

TIMED: Final = "timed epochs"
PROFILED: Final = "profiled steps"
PREPARING: Final = "compiling and capturing"
BUILDING: Final = "building model and data"
EVALUATING: Final = "evaluating"
REST: Final = "starting, importing, profiler's own"
PARTS: Final = (TIMED, PROFILED, PREPARING, BUILDING, EVALUATING, REST)

INTERRUPTION_S: Final = 10.0
"""Between variants of one command lies less than a second; Snakemake needs some more to start the next one."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """One variant's measuring: when, and the seconds of each part, which add up to the whole."""

    variant: str
    begin_s: float
    end_s: float
    parts_s: Mapping[str, float]

    @property
    def whole_s(self) -> float:
        return self.end_s - self.begin_s


def read_spans(folders: Sequence[Path]) -> list[Span]:
    """Every variant in these folders of results, in the order in which they were measured.

    Raises:
        GpuReportError: there is none, or a record cannot be read.
    """
    paths = [path for folder in folders for path in sorted(folder.glob("runs/*/record.json"))]
    if not paths:
        told = ", ".join(map(str, folders)) or MACHINES
        raise GpuReportError(f"no record lies in {told}; name a machine's folder, such as {MACHINES}/<machine>")
    spans = [span_of(read_record(path), written_s=path.stat().st_mtime) for path in paths]
    return sorted(spans, key=lambda span: span.begin_s)


def span_of(record: Record, *, written_s: float) -> Span:
    """The seconds from the begin of the measuring to the written record, by part."""
    begin_s = datetime.fromisoformat(record.provenance.measured_at).timestamp()
    trained_s = [sum(epoch.wall_time_s for epoch in repetition.all_epochs) for repetition in record.repetitions]
    parts_s = {
        TIMED: sum(trained_s),
        PROFILED: sum(record.profile.step_times_ms) / 1e3 if record.profile else 0.0,
        PREPARING: sum(repetition.preparation_time_s for repetition in record.repetitions),
        BUILDING: sum(repetition.build_time_s for repetition in record.repetitions),
        EVALUATING: sum(repetition.training_wall_s for repetition in record.repetitions) - sum(trained_s),
    }
    parts_s[REST] = written_s - begin_s - sum(parts_s.values())
    return Span(variant=record.variant, begin_s=begin_s, end_s=written_s, parts_s=parts_s)


def stretches(spans: Sequence[Span]) -> list[int]:
    """How many variants were measured in a row before each interruption, and after the last."""
    breaks = [
        number
        for number, (before, after) in enumerate(pairwise(spans), start=1)
        if after.begin_s - before.end_s > INTERRUPTION_S
    ]
    return [end - begin for begin, end in pairwise([0, *breaks, len(spans)])]


def lines(spans: Sequence[Span]) -> list[str]:
    """The division as a table, then what outlasted training, and the interruptions."""
    total_s = {part: sum(span.parts_s[part] for span in spans) for part in PARTS}
    whole_s = sum(total_s.values())
    inside_s = total_s[TIMED] + total_s[PROFILED]
    outside_s = whole_s - inside_s - total_s[PREPARING]
    done = ", ".join(map(str, accumulate(stretches(spans))))
    return [
        *(f"{part:36} {total_s[part]:8.1f} s  {total_s[part] / whole_s:5.1%}" for part in PARTS),
        f"{'all ' + str(len(spans)) + ' variants':36} {whole_s:8.1f} s",
        f"timed or profiled {inside_s:.1f} s; outside, compiling and capturing apart, {outside_s:.1f} s: ratio"
        f" {outside_s / inside_s if inside_s else math.nan:.2f}",
        f"from the first variant to the last {spans[-1].end_s - spans[0].begin_s:.1f} s;"
        f" variants done at the end of each stretch: {done}",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="one machine's results")
    parser.add_argument("--each", action="store_true", help="also the share of each variant")
    arguments = parser.parse_args()
    try:
        spans = read_spans(arguments.folders or sorted(MACHINES.glob("*/")))
    except GpuReportError as error:
        print(f"study_time: error: {error}", file=sys.stderr)
        return 2
    for span in spans if arguments.each else ():
        inside_s = span.parts_s[TIMED] + span.parts_s[PROFILED]
        print(f"{span.variant:80} {inside_s:6.1f} s of {span.whole_s:6.1f} s: {inside_s / span.whole_s:.2f}")
    print("\n".join(lines(spans)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
