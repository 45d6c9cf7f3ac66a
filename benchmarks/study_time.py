"""How the time of measuring a study divides: `python -m benchmarks.study_time [FOLDER ...]`.

records -> one Span per variant -> seconds by part

A folder is one machine's results; without one, every machine in results/machines. The calibration
and the reports are not in it.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpu_report.bundles.shown_machines import MACHINES
from gpu_report.errors import GpuReportError
from gpu_report.records.record import RECORD_FILE, Record

TIMED: Final = "timed epochs"
PROFILED: Final = "profiled steps"
COMPILING: Final = "compiling and capturing"
BUILDING: Final = "building model and data"
EVALUATING: Final = "evaluating"
REST: Final = "starting, importing, profiler's own"
PARTS: Final = (TIMED, PROFILED, COMPILING, BUILDING, EVALUATING, REST)


@dataclass(frozen=True, kw_only=True)
class Span:
    """One variant's measuring: the seconds of each part, which add up to the whole."""

    variant: str
    whole_s: float
    parts_s: Mapping[str, float]


def read_spans(folders: Sequence[Path]) -> list[Span]:
    """Every variant in these folders of results, in the order in which they were measured.

    Raises:
        GpuReportError: there is none that says how long it took, or a record cannot be read.
    """
    records = [
        RECORD_FILE.read(path) for folder in folders for path in folder.glob("runs/*/record.json")
    ]
    spans = [
        span_of(record)
        for record in sorted(records, key=lambda record: record.provenance.measured_at)
    ]
    if not any(spans):
        named = ", ".join(map(str, folders)) or MACHINES
        raise GpuReportError(
            f"no record in {named} says how long it took (older ones do not); name a machine's "
            f"folder, such as {MACHINES}/<machine>"
        )
    return [span for span in spans if span]


def span_of(record: Record) -> Span | None:
    """The seconds that the measuring took, by part; None where the record does not say."""
    whole_s = record.provenance.measuring_s
    if whole_s is None:
        return None
    trained_s = [
        sum(epoch.wall_time_s for epoch in repetition.all_epochs)
        for repetition in record.repetitions
    ]
    parts_s = {
        TIMED: sum(trained_s),
        PROFILED: sum(record.profile.step_times_ms) / 1e3 if record.profile else 0.0,
        COMPILING: sum(repetition.preparation_time_s for repetition in record.repetitions),
        BUILDING: sum(repetition.build_time_s for repetition in record.repetitions),
        EVALUATING: sum(repetition.training_wall_s for repetition in record.repetitions)
        - sum(trained_s),
    }
    parts_s[REST] = whole_s - sum(parts_s.values())
    return Span(variant=record.variant, whole_s=whole_s, parts_s=parts_s)


def lines(spans: Sequence[Span]) -> list[str]:
    """The division as a table, then the share of training in it."""
    total_s = {part: sum(span.parts_s[part] for span in spans) for part in PARTS}
    whole_s = sum(total_s.values())
    inside_s = total_s[TIMED] + total_s[PROFILED]
    return [
        *(f"{part:36} {total_s[part]:8.1f} s  {total_s[part] / whole_s:5.1%}" for part in PARTS),
        f"{'all ' + str(len(spans)) + ' variants':36} {whole_s:8.1f} s",
        f"timed or profiled {inside_s / (whole_s - total_s[COMPILING]):.1%} of it, compiling and "
        "capturing apart",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folders", nargs="*", type=Path, metavar="FOLDER", help="one machine's results"
    )
    parser.add_argument("--each", action="store_true", help="also the share of each variant")
    arguments = parser.parse_args()
    try:
        spans = read_spans(arguments.folders or sorted(MACHINES.glob("*/")))
    except GpuReportError as error:
        print(f"study_time: error: {error}", file=sys.stderr)
        return 2
    for span in spans if arguments.each else ():
        inside_s = span.parts_s[TIMED] + span.parts_s[PROFILED]
        print(
            f"{span.variant:80} {inside_s:6.1f} s of {span.whole_s:6.1f} s: "
            f"{inside_s / span.whole_s:.2f}"
        )
    print("\n".join(lines(spans)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
