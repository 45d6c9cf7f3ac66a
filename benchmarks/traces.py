"""How fast a trace is read and tabulated, against HTA and against decoding it into plain objects;
each reader is a process of its own.

`python -m benchmarks.traces --peer-python PATH` makes large traces from small ones, times every
reader in turns, and prints medians and ratios. `PATH` is the interpreter of an environment in which
HolisticTraceAnalysis is installed.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.large_trace import write_large_trace

MB: Final = 1_000_000
MIB: Final = 1 << 20
TRACES: Final = Path(__file__).parents[1] / "tests" / "data" / "traces"
_MEASURED: Final = r"""
import json, re, sys, time
from pathlib import Path
started = time.perf_counter()
path = Path(sys.argv[1])
{body}
took_s = time.perf_counter() - started
peak_kib = int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1])
print(json.dumps([took_s, peak_kib * 1024]))
"""

_ALL_TABLES: Final = """
from gpu_report.traces.reading import read_trace
from gpu_report.traces.tables import as_csv
from gpu_report.traces.tables import tabulate_trace
as_csv(tabulate_trace(read_trace(path)))
"""
PLAIN: Final = "plain objects"
"""The whole file as dictionaries and lists, by msgspec; every other time is divided by this one."""

READERS: Final[Mapping[str, str]] = {
    "all tables": _ALL_TABLES,
    "main tables": (
        "from gpu_report.traces.reading import read_trace\n"
        "from gpu_report.traces.attribution import attribute_device, attribute_host\n"
        "from gpu_report.traces.kernels import kernel_rows\n"
        "from gpu_report.traces.operations import operation_rows\n"
        "from gpu_report.traces.steps import step_rows\n"
        "trace = read_trace(path)\n"
        "calls = attribute_host(trace)\n"
        "work = attribute_device(trace, calls)\n"
        "for rows_of in (operation_rows, kernel_rows, step_rows): list(rows_of(trace, calls, work))"
    ),
    "read alone": "from gpu_report.traces.reading import read_trace\nread_trace(path)",
    "decode alone": (
        "from gpu_report.traces.document import blocks_of, events_of\n"
        "for events in events_of(blocks_of(path), {}): pass"
    ),
    PLAIN: "import msgspec\nmsgspec.json.decode(path.read_bytes())",
}
HTA: Final = "HTA load"
_HTA_BODY: Final = (
    "import warnings; warnings.simplefilter('ignore')\n"
    "from hta.trace_analysis import TraceAnalysis\n"
    "TraceAnalysis(trace_files={0: str(path)}, trace_dir='')"
)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one whole process: from its first import to its end, and the most memory that it had."""

    time_s: float
    peak_bytes: int


def cost_of(python: str, body: str, trace: Path) -> Cost:
    printed = subprocess.run(
        _command(python, body, trace), check=True, capture_output=True, text=True
    ).stdout
    time_s, peak_bytes = json.loads(printed.splitlines()[-1])
    return Cost(time_s=time_s, peak_bytes=peak_bytes)


def _command(python: str, body: str, trace: Path) -> list[str]:
    return [python, "-c", _MEASURED.format(body=body), str(trace)]


def compare(
    name: str, trace: Path, *, peer_python: str | None, repeats: int, peer_repeats: int
) -> None:
    """Every reader on one trace, in turns; medians and ratios."""
    costs: dict[str, list[Cost]] = {}
    for turn in range(repeats):
        for reader, body in READERS.items():
            costs.setdefault(reader, []).append(cost_of(sys.executable, body, trace))
        if peer_python and turn < peer_repeats:
            costs.setdefault(HTA, []).append(cost_of(peer_python, _HTA_BODY, trace))
    size = trace.stat().st_size
    times_s = {
        reader: statistics.median(cost.time_s for cost in measured)
        for reader, measured in costs.items()
    }
    print(
        f"{name}: {size / MB:.0f} MB, medians of {repeats} processes ({HTA} {peer_repeats}) on "
        f"{os.cpu_count()} cores"
    )
    for reader, measured in costs.items():
        peak = statistics.median(cost.peak_bytes for cost in measured)
        beyond = (peak - 35 * MIB) / size
        print(
            f"  {reader:13} {times_s[reader]:7.2f} s  {times_s[reader] / times_s[PLAIN]:6.2f} of "
            f"{PLAIN}{_than_hta(times_s, reader)}  peak {peak / MIB:6.0f} MiB ({beyond:.2f} of "
            "the file + 35 MiB)",
            flush=True,
        )


def _than_hta(times_s: Mapping[str, float], reader: str) -> str:
    return f"  {times_s[HTA] / times_s[reader]:5.1f} times as fast as HTA" if HTA in times_s else ""


def scaling(source: Path, folder: Path, sizes_mb: list[int]) -> None:
    """The exponent of time over size; 1 is linear."""
    points = []
    for size_mb in sizes_mb:
        trace = folder / f"scaling-{size_mb}.json"
        write_large_trace(source, trace, size_bytes=size_mb * MB)
        size, cost = trace.stat().st_size, cost_of(sys.executable, _ALL_TABLES, trace)
        points.append((math.log(size), math.log(cost.time_s)))
        print(
            f"scaling: {size / MB:6.0f} MB in {cost.time_s:6.2f} s, peak "
            f"{cost.peak_bytes / MIB:.0f} MiB",
            flush=True,
        )
        trace.unlink()
    exponent = statistics.linear_regression(*zip(*points, strict=True)).slope
    print(f"scaling: time grows with the size to the power {exponent:.2f}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu-trace", type=Path, default=TRACES / "unet_cuda.pt.trace.json.gz")
    parser.add_argument("--cpu-trace", type=Path, help="a trace of the CPU alone; left out without")
    parser.add_argument(
        "--peer-python", help="interpreter that has HolisticTraceAnalysis; left out without"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--peer-repeats", type=int, default=5, help="a large trace takes the peer minutes"
    )
    parser.add_argument(
        "--scaling",
        type=int,
        nargs="*",
        default=[10, 50, 250, 1000, 2000],
        help="sizes in MB; none without two",
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cases = [("GPU trace", arguments.gpu_trace, 54), ("GPU trace", arguments.gpu_trace, 543)]
        if arguments.cpu_trace:
            cases.append(("CPU trace", arguments.cpu_trace, 501))
        for name, source, size_mb in cases:
            trace = Path(folder) / "large.json"
            write_large_trace(source, trace, size_bytes=size_mb * MB)
            compare(
                name,
                trace,
                peer_python=arguments.peer_python,
                repeats=arguments.repeats,
                peer_repeats=arguments.peer_repeats,
            )
        if len(arguments.scaling) > 1:
            scaling(arguments.gpu_trace, Path(folder), arguments.scaling)
    return 0


if __name__ == "__main__":
    sys.exit(main())
