"""Write the README's table of what one machine measured from that machine's published bundle: `make
readme`.

bundle -> records -> rows of the variants named in GROUPS -> Markdown between the README's two
markers
"""

import math
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from gpu_report.bundles.manifest import Manifest
from gpu_report.bundles.unpacking import read_manifest, unpack
from gpu_report.errors import GpuReportError
from gpu_report.glossary import SHOWN, device_words
from gpu_report.printing.number_format import (
    count,
    counted,
    duration,
    is_range,
    memory,
    ratio,
    scaled,
    share,
)
from gpu_report.records.calibration import CALIBRATION_FILE, Calibration
from gpu_report.records.record import RECORD_FILE, Record
from gpu_report.storage.files import write_text_atomically
from gpu_report.study.options import NO_OPTIONS
from gpu_report.tables.ceilings import tabulate_peaks
from gpu_report.tables.efficiency import tabulate_efficiency
from gpu_report.tables.experiments import break_even_steps
from gpu_report.tables.marks import Today
from gpu_report.tables.processes import process_values, protocol_version, speedup
from gpu_report.tables.statistics import summarise
from gpu_report.tables.variants import variant_row
from gpu_report.words import date_words, flags_of, model_cell

BUNDLE: Final = Path("results/published/h100-80gb-x1-xeon-16c.tar.xz")
BEGIN: Final = "<!-- headline: written by `make readme` from a published bundle -->"
END: Final = "<!-- end of headline -->"

BEST: Final = "best"
"""Stands for the fastest variant of the ladder that starts from the row above it."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """One training in several variants, of which the first is what the others are compared with."""

    variants: tuple[str, ...]
    plain: str
    """The eager baseline that the ladder of optimizations starts from."""


GROUPS: Final = (
    Group(
        variants=(
            "unet-128px-cpu-b16-w0-fp32-e1x1",
            "unet-128px-cuda-b16-w0-fp32-e5-resident",
            "unet-128px-cuda-b16-w0-tf32-e5-resident",
            "unet-128px-cuda-b16-w0-bf16-e5-resident",
            BEST,
        ),
        plain="unet-128px-cuda-b16-w0-bf16-e5",
    ),
    Group(
        variants=(
            "lstm-cpu-b64-w0-fp32-e2x4",
            "lstm-cuda-b64-w0-fp32-e5",
            BEST,
        ),
        plain="lstm-cuda-b64-w0-fp32-e5",
    ),
)


FRONTIER: Final = "unet-128px-cuda-b16-w0-fp32-e2x1-resident"
"""Of the batch sizes up to the one that no longer fits."""


class ReadmeError(GpuReportError):
    """The README or the bundle lacks what the table needs."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """What one bundle holds, read and checked."""

    manifest: Manifest
    records: Mapping[str, Record]
    calibration: Calibration

    def record(self, slug: str) -> Record:
        """The record of a variant.

        Raises:
            ReadmeError: the bundle has none that was measured to the end.
        """
        record = self.records.get(slug)
        if record is None or record.status != "ok":
            raise ReadmeError(
                f"{BUNDLE} has no measured {slug}; publish one that has, or change GROUPS in "
                f"{__file__}"
            )
        return record

    def varied(self, slug: str, *fields: str) -> list[Record]:
        """The records of all variants that differ from this one in these fields alone, whatever
        came of them.
        """
        start = self.record(slug).as_variant()
        same = {field: getattr(start, field) for field in fields}
        return [
            record
            for record in self.records.values()
            if replace(record.as_variant(), **same) == start
        ]

    def ladder(self, plain: str) -> list[Record]:
        """What was measured of the optimizations that start from this eager baseline, itself
        included.
        """
        return [
            record for record in self.varied(plain, "workers", "options") if record.status == "ok"
        ]

    def best(self, plain: str) -> Record:
        """The fastest of them."""
        return max(
            self.ladder(plain),
            key=lambda record: summarise(process_values(record)["throughput_per_s"]).value,
        )


def read_published(bundle: Path) -> Published:
    """Everything in the bundle.

    Raises:
        BundleError: the bundle cannot be trusted.
    """
    with tempfile.TemporaryDirectory() as folder:
        unpacked = unpack(bundle, Path(folder))
        manifest = read_manifest(bundle)
        calibration = CALIBRATION_FILE.read(unpacked.folder / "calibration.json")
        records = {
            slug: RECORD_FILE.read(unpacked.folder / "runs" / slug / "record.json")
            for slug in manifest.variants
        }
    return Published(manifest=manifest, records=records, calibration=calibration)


def headline(published: Published) -> str:
    """The table and what has to be said beside it, as Markdown."""
    manifest = published.manifest
    torch = ", ".join(
        sorted({str(record.environment["torch"]) for record in published.records.values()})
    )
    processes = max(len(record.repetitions) for record in published.records.values())
    lines = [
        f"{manifest.hardware}; PyTorch {torch}; {date_words(manifest.measured_at[:10])}; means of "
        f"{processes} processes, in brackets their "
        f"{'range' if is_range(processes) else '95 % interval'}:",
        "",
        "| training | how | samples/s | one epoch | against the CPU | of the peak | held-out "
        "quality |",
        "|---|---|---|---|---|---|---|",
        *(row for group in GROUPS for row in _rows(published, group)),
        "",
        *(f"- {fact}" for fact in _facts(published)),
    ]
    return "\n".join(lines)


def _rows(published: Published, group: Group) -> Iterator[str]:
    reference = published.record(group.variants[0])
    for slug in group.variants:
        record = published.best(group.plain) if slug == BEST else published.record(slug)
        row = _row_of(published, record)
        against = speedup(record, reference)
        cells = [
            _training(row, record) if record is reference else "",
            _how(row, is_best=slug == BEST),
            replace(SHOWN["throughput"].quantity(row), is_range=False).plain(unit=False),
            _epoch(row, record),
            "1"
            if record is reference
            else ratio(against.value, low=against.low, high=against.high).plain(),
            _share_of_peak(published, record),
            _quality(row),
        ]
        yield f"| {' | '.join(cells)} |"


def _row_of(published: Published, record: Record) -> Mapping[str, Any]:
    """The record's row of the table of variants, with doubts about the measurement and none about
    today's code.
    """
    code, version = record.provenance.code_digest, protocol_version(record)
    today = Today(code_digest=code, protocol_version=version)
    return variant_row(record, today=today)


def _training(row: Mapping[str, Any], record: Record) -> str:
    samples = record.workload.train_samples if record.workload else 0
    return f"{model_cell(row)}: {count(samples).plain()} samples, batches of {row['batch_size']}"


def _how(row: Mapping[str, Any], *, is_best: bool) -> str:
    how = [f"{device_words(row['device'])} `{row['precision']}`"]
    if is_best:
        how.append("**best optimizations**")
    elif row["optimization"] != NO_OPTIONS:
        how.append(f"`{row['optimization']}`")
    return ", ".join([*how, *(mark for mark in flags_of(row) if mark != "projected")])


def _epoch(row: Mapping[str, Any], record: Record) -> str:
    time = SHOWN["epoch_time"].quantity(row, unit="s").plain(interval=False)
    if not row["epoch_time_projected"]:
        return time
    return f"{time}, projected from epochs of {counted(row['steps_per_epoch'], 'step')}"


def _share_of_peak(published: Published, record: Record) -> str:
    found = tabulate_efficiency([record], published.calibration)
    return share(found[0]["share_of_peak"]).plain() if found else "–"


def _quality(row: Mapping[str, Any]) -> str:
    """What was learned in whole epochs; shortened ones have learned from a few batches and compare
    with nothing.
    """
    if row["epoch_time_projected"]:
        return "–"
    return f"{SHOWN['quality'].quantity(row).plain(interval=False)} {row['quality_name']}"


def _facts(published: Published) -> Iterator[str]:
    for group in GROUPS:
        yield _best_in_words(published, group)
    yield _largest_batch(published)
    yield _peaks(published)


def _best_in_words(published: Published, group: Group) -> str:
    best, plain = published.best(group.plain), published.record(group.plain)
    row = _row_of(published, best)
    gain = speedup(best, plain)
    sentences = [
        (
            f"{model_cell(row)}, best optimizations: `{row['optimization']}`, "
            f"{ratio(gain.value, low=gain.low, high=gain.high).plain()} the eager baseline in "
            f"{row['precision']}."
        )
    ]
    steps = break_even_steps(best, plain, gain)
    break_even = (
        f", which breaks even after {count(steps).plain()} steps" if math.isfinite(steps) else ""
    )
    if row["preparation_cold_s"] > 0:
        sentences.append(
            "Before its first step it compiles and captures for "
            f"{duration(row['preparation_cold_s']).plain()} "
            f"({duration(row['preparation_time_s']).plain()} with the compiler's cache "
            f"filled){break_even}."
        )
    return " ".join(sentences)


def _largest_batch(published: Published) -> str:
    tried = published.varied(FRONTIER, "batch_size")
    rows = sorted(
        (_row_of(published, record) for record in tried), key=lambda row: int(row["batch_size"])
    )
    largest = [row for row in rows if row["status"] == "ok"][-1]
    failed = [str(row["batch_size"]) for row in rows if row["status"] == "oom"]
    return (
        f"{model_cell(largest)}, largest batch in {largest['precision']}: "
        f"{largest['batch_size']}, in {memory(largest['memory_peak_mib']).plain()} of "
        f"{memory(largest['device_memory_mib']).plain()}; out of memory: "
        f"{', '.join(failed) or 'none of those tried'}."
    )


def _peaks(published: Published) -> str:
    by_device: dict[str, list[str]] = {}
    for row in tabulate_peaks(published.calibration):
        peak = f"{row['precision'] or row['ceiling']} {scaled(row['value'], row['unit']).plain()}"
        by_device.setdefault(device_words(row["device"]), []).append(peak)
    written = "; ".join(f"{device} {', '.join(peaks)}" for device, peaks in by_device.items())
    return f"Measured peaks, of matrix products and of copies: {written}."


def with_headline(text: str, block: str) -> str:
    """The README with this block between its markers.

    Raises:
        ReadmeError: it has not each of the two markers once, in their order.
    """
    before, begin, rest = text.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(f"{END}\n")
    if not begin or not end or (text.count(BEGIN), text.count(END)) != (1, 1):
        raise ReadmeError(
            f"the README needs the line {BEGIN!r} and, below it, the line {END!r}, once each; add "
            "them"
        )
    return f"{before}{begin}\n{block}\n\n{end}{after}"


def main(arguments: Sequence[str]) -> int:
    """Write the table into the file that is named, or README.md."""
    readme = Path(arguments[0]) if arguments else Path("README.md")
    try:
        block = headline(read_published(BUNDLE))
        write_text_atomically(readme, with_headline(readme.read_text("utf-8"), block))
    except GpuReportError as error:
        print(f"headline_table: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
