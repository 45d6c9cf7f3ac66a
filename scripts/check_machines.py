"""Whether each number on the page of machines follows from the records of its bundle: `make
machines`, which a pull request with a bundle has to pass.

page -> its cells, and the configurations that they are of; bundle -> record.json -> a value of each
process -> mean and interval -> the cell as it should be
records of one model, size and device -> whether one is faster than the page's fastest

Nothing here is shared with the code that made the tables: a process has the median of its timed
epochs, and several have a plain mean, scipy's interval and scipy's test. Data sheets, what is
declared of an option, and the way in which a number is written are those of the project.
"""

import gzip
import json
import math
import re
import sys
import tarfile
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any, Final

from scipy.stats import t as student
from scipy.stats import ttest_ind

from gpu_report.glossary import Row
from gpu_report.page.machines import NUMBERS, price_column
from gpu_report.page.shared import html_table
from gpu_report.records.data_sheets import data_sheets
from gpu_report.study.options import OPTIONS

PUBLISHED: Final = Path("results/published")
DATA: Final = re.compile(r'<script type="application/gzip" id="data">(.*?)</script>')
FACTORS: Final = {
    "gpu_over_cpu": ("eager", "cpu"),
    "fastest_over_eager": ("fastest", "eager"),
    "fastest_over_cpu": ("fastest", "cpu"),
    "over_fastest_cpu": ("fastest", "fastest_cpu"),
}
PREFERRED: Final = {"fastest": 1.02, "fastest_cpu": 1.0}
"""The report may choose the simpler of two on a GPU whose throughputs differ by less than 2 %."""
SIGNIFICANCE: Final = 0.05
SETTINGS: Final = ("batch_size", "precision", "options", "workers", "accumulation")
"""Two records that share them differ in the length of the training."""


def differences(page: Path, published: Path = PUBLISHED) -> Iterator[str]:
    """A line for each number of the page that is not the recomputed one, and for each bundle that
    it does not show.
    """
    found = DATA.search(page.read_text("utf-8"))
    if found is None:
        raise SystemExit(f"{page} has no data; write it with: gpu-report machines --html {page}")
    data = json.loads(gzip.decompress(b64decode(found[1])))
    printed = [
        {column["csv"]: cell for column, cell in zip(data["machines"]["columns"], row, strict=True)}
        for row in data["machines"]["rows"]
    ]
    names = {source["bundle"] for source in data["sources"]}
    records = {name: records_of(published / name) for name in names}
    recomputed = [
        numbers(source, records[source["bundle"]], data["prices"]) for source in data["sources"]
    ]
    columns = [*NUMBERS, price_column(data["prices"]["currency"])]
    for path in sorted({path.name for path in published.glob("*.tar.xz")} - names):
        yield f"{path} is not on the page"
    for row, source in zip(printed, data["sources"], strict=True):
        if row.get("refused"):
            yield f"{source['bundle']} is not shown: {row['refused']}"
    for column in columns:
        cells = html_table([column], recomputed)["rows"] or [[None]] * len(printed)
        for row, (expected,), source in zip(printed, cells, data["sources"], strict=True):
            cell = row.get(column.column)
            if cell and expected and column.column in FACTORS:  # their intervals need sentinels
                cell = [cell[0], expected[1]]
            if not agree(cell, expected):
                yield (
                    f"{source['bundle']}, {row['model']}: {column.header} is {cell}, recomputed "
                    f"{expected}"
                )
    for row, source in zip(printed, data["sources"], strict=True):
        for name, faster in passed_over(source, records[source["bundle"]]):
            yield (
                f"{source['bundle']}, {row['model']}: {name} is {source[name]}, but {faster} is "
                "faster"
            )


def agree(cell: Sequence[Any] | None, expected: Sequence[Any] | None) -> bool:
    """Whether both are missing, or are the same value but for rounding, and one text."""
    if cell is None or expected is None:
        return cell is expected
    return math.isclose(cell[0], expected[0], rel_tol=1e-6) and cell[1] == expected[1]


def records_of(bundle: Path) -> dict[str, Any]:
    """The records in a bundle by the name of their configuration, as they are there; none of one
    that cannot be read, which the page refuses too.
    """
    try:
        with tarfile.open(bundle, "r:xz") as archive:
            return {
                Path(member.name).parent.name: json.load(content)
                for member in archive
                if Path(member.name).name == "record.json"
                and (content := archive.extractfile(member))
            }
    except (OSError, EOFError, ValueError, tarfile.TarError):
        return {}


def numbers(
    source: Mapping[str, str], records: Mapping[str, Any], prices: Mapping[str, Any]
) -> Row:
    """A row of the page, recomputed."""
    row = {f"{each.column}{end}": math.nan for each in NUMBERS for end in ("", "_low", "_high")}
    row["price_per_million"] = math.nan
    rates = {
        name: [throughput(process) for process in records[slug]["repetitions"]]
        for name, slug in source.items()
        if name != "bundle"
    }
    for name, values in rates.items():
        row |= summary(name, values, is_log=True)
    for name, (over, under) in FACTORS.items():
        if over in rates and under in rates and source[over] != source[under]:
            row[name] = row[over] / row[under]
    if source.get("cpu") == source.get("fastest_cpu"):
        row["over_fastest_cpu"] = math.nan
    if "fastest" not in source:
        return row
    record, fastest = records[source["fastest"]], rates["fastest"]
    tokens = record["workload"].get("tokens_per_sample")
    shares = [operations(record) * rate / peak(record) for rate in fastest]
    if tokens:
        row |= summary("tokens_per_s", [tokens * rate for rate in fastest], is_log=True)
    if max(shares) <= 1:  # false of NaN
        row |= summary("mfu", shares, is_log=False)
    energies = [
        process["telemetry"]["energy_j"] / sum(epoch["samples"] for epoch in timed(process))
        for process in record["repetitions"]
        if process["telemetry"] and process["telemetry"]["energy_j"] is not None
    ]
    row |= summary("energy_per_sample_j", energies, is_log=True)
    parts = []
    if prices["per_kwh"] is not None:
        parts.append(row["energy_per_sample_j"] * 1_000_000 / 3_600_000 * prices["per_kwh"])
    if prices["per_device_hour"] is not None:
        parts.append(1_000_000 / row["fastest"] / 3600 * prices["per_device_hour"])
    row["price_per_million"] = sum(parts) if parts else math.nan
    return row


def passed_over(source: Mapping[str, str], records: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each source that is not of the fastest comparable record of the same boot, with that record's
    name: between boots, throughputs differ by more than this test knows.

    The fastest must be faster than the eager baseline beyond chance, too. The report adjusts that
    for the comparisons of an experiment; here the level is divided by the number of all records,
    of which there are more.
    """
    for name in [each for each in PREFERRED if each in source]:
        shown = records[source[name]]
        eager = records.get(source.get("eager", "")) if name == "fastest" else None
        faster = [
            slug
            for slug, record in records.items()
            if is_candidate(record)
            and kind(record) == kind(shown)
            and record["provenance"]["boot"] == shown["provenance"]["boot"]
            and settings(record) != settings(shown)
            and rate(record) > PREFERRED[name] * rate(shown)
            and (eager is None or p_value(record, eager) < SIGNIFICANCE / len(records))
        ]
        if faster:
            yield name, max(faster, key=lambda slug: rate(records[slug]))


def is_candidate(record: Mapping[str, Any]) -> bool:
    """Whether it has numbers, of all the work on one device, without a custom training loop."""
    variant = record["measurement"]["variant"]
    options = [OPTIONS[name] for name in variant["options"].split("+") if name != "none"]
    return (
        record["status"] == "ok"
        and variant.get("strategy", "single") == "single"
        and not any(option.is_bound or option.is_loop for option in options)
    )


def kind(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """Model, size, device and protocol version: what records that are compared share."""
    variant, protocol = record["measurement"]["variant"], record["measurement"]["protocol"]
    return (variant["workload"], variant["size"], variant["device"], protocol["version"])


def settings(record: Mapping[str, Any]) -> list[Any]:
    """What a configuration trains with."""
    return [record["measurement"]["variant"][name] for name in SETTINGS]


def rate(record: Mapping[str, Any]) -> float:
    """Mean throughput over processes."""
    return summary("", map(throughput, record["repetitions"]), is_log=True)[""]


def p_value(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Of Welch's test that both have one mean log throughput; NaN of a single process."""
    rates = [[math.log(throughput(each)) for each in of["repetitions"]] for of in (one, other)]
    return float(ttest_ind(*rates, equal_var=False).pvalue)


def timed(process: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The epochs of a process after its warm-up."""
    epochs = [*process["epochs"], *process.get("extra_epochs", [])]
    return epochs[process.get("warm_up_epochs", 1) :]


def throughput(process: Mapping[str, Any]) -> float:
    """Samples per second."""
    return float(median(epoch["samples"] / epoch["wall_time_s"] for epoch in timed(process)))


def operations(record: Mapping[str, Any]) -> float:
    """Floating-point operations that a sample needs: by formula, else as counted; NaN where neither
    is known.
    """
    facts, work = record["workload"], (record["profile"] or {}).get("work")
    if facts.get("flops_per_token") is not None:
        return float(facts["flops_per_token"] * facts["tokens_per_sample"])
    if work is None or "checkpoint" in record["measurement"]["variant"]["options"]:
        return math.nan
    return float(work["flops"] / work["samples"])


def peak(record: Mapping[str, Any]) -> float:
    """The data sheet's operations per second in the configuration's precision; NaN of a CPU, of a
    GPU that is not known, and in FP8.
    """
    variant = record["measurement"]["variant"]
    sheet = data_sheets().get(str(record["environment"].get("accelerator")))
    is_known = sheet is not None and variant["device"] != "cpu" and "fp8" not in variant["options"]
    tflops = sheet.tflops.get(variant["precision"]) if sheet and is_known else None
    return 1e12 * tflops if tflops else math.nan


def summary(name: str, values: Iterable[float], *, is_log: bool) -> dict[str, float]:
    """Mean and 95 % interval of a value per process, on logarithms or, of a share, as it is."""
    found = [math.log(value) if is_log else value for value in values]
    if not found:
        return {}
    mean, half = fmean(found), math.nan
    if len(found) >= 3:
        half = float(student.ppf(0.975, len(found) - 1)) * stdev(found) / math.sqrt(len(found))
    ends = [mean, mean - half, mean + half]
    ends = [math.exp(end) for end in ends] if is_log else [min(max(end, 0), 1) for end in ends]
    return dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))


def main(arguments: Sequence[str]) -> int:
    """Check the page that is named; the exit status is 1 if anything on it differs."""
    (page,) = arguments
    found = list(differences(Path(page)))
    print(*found, f"{page}: {len(found)} differences from the bundles", sep="\n")
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
