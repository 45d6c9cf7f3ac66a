"""Names are kept of bounded length, on one line."""

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.traces.analysis import analyse
from gpu_report.traces.events import MOST_CHARACTERS, kept_name
from gpu_report.traces.kernels import KERNELS
from gpu_report.traces.reading import read_trace
from gpu_report.traces.shapes import SHAPES
from tests.unit.traces.by_hand import RawEvent, kernel, launch, operation, span, step, write

HANGS_AFTER_S: Final = 60
LONGEST: Final = 20_000_000


def training(**names: Any) -> list[RawEvent]:
    """One step of an operation, a Python function and a kernel, by these names."""
    on = (100, names.get("thread", 100))
    return [
        step(1, 0, 1000),
        span("user_annotation", names.get("mark", "forward"), 1, 900, on=on),
        operation(names.get("operation", "aten::mm"), 100, 300, on=on, external_id=1),
        span("python_function", names.get("function", "train.py(1): step"), 0, 1000, on=on),
        span(names.get("kind", "cuda_runtime"), "cudaLaunchKernel", 150, 10, on=on, correlation=1),
        kernel(names.get("kernel", "gemm"), 200, 600, correlation=1),
    ]


@given(st.text(max_size=50), st.integers(1, 60))
def test_a_kept_name_is_on_one_line_and_a_short_printable_one_is_unchanged(name: str, most: int) -> None:
    kept = kept_name(name, most=most)

    assert len(kept.splitlines()) <= 1
    assert kept == name or len(name) > most or not name.isprintable()
    assert kept_name(kept, most=len(kept)) == kept


def test_a_long_name_keeps_its_begin_and_its_end_and_says_what_is_left_out() -> None:
    kept = kept_name("void begin" + "x" * 1_000_000 + "end<float>")

    assert kept.startswith("void begin")
    assert kept.endswith("end<float>")
    assert " ... 996,020 characters left out ... " in kept
    assert len(kept) < MOST_CHARACTERS + 100


def test_a_kernel_of_cutlass_is_kept_whole() -> None:
    name = "void cutlass::device_kernel<" + "cute::tuple<cute::C<128>, " * 100 + ">"

    assert kept_name(name) == name


def test_kernels_that_differ_only_in_what_is_left_out_are_one(tmp_path: Path) -> None:
    end = "y" * MOST_CHARACTERS
    kernels = [kernel(f"{end}{middle}{end}", 100 * n, 50, correlation=n) for n, middle in enumerate("ab", start=1)]
    path = write(tmp_path / "trace.json", [step(1, 0, 1000), launch(1, 10), launch(2, 20), *kernels])

    (row,) = analyse(path).rows[KERNELS]

    assert row["calls"] == 2


def test_names_threads_kinds_and_devices_are_kept_short(tmp_path: Path) -> None:
    long = "w" * 100_000
    names = dict.fromkeys(("thread", "mark", "operation", "function", "kernel"), long) | {"kind": f"{long}_runtime"}
    path = write(tmp_path / "trace.json", training(**names), deviceProperties=[{"name": long}], gpu_report_run=long)

    trace = read_trace(path)

    assert max(map(len, (*trace.names, *trace.threads, *trace.kinds))) < MOST_CHARACTERS + 100
    assert len(analyse(path).device_name) < 300


def test_shapes_of_any_length_are_kept_short(tmp_path: Path) -> None:
    described = operation("aten::mm", 100, 300)
    described["args"]["Input Dims"] = [[1, 2]] * 100_000
    path = write(tmp_path / "trace.json", [step(1, 0, 1000), launch(1, 10), described])

    texts = [row["shapes"] for row in analyse(path).rows[SHAPES]]

    assert max(map(len, texts), default=0) < 200_000


@pytest.mark.parametrize("named", ["kernel", "function"])
def test_a_name_of_20_mb_is_answered(named: str, tmp_path: Path) -> None:
    name = "x" * LONGEST + (".py(1): step" if named == "function" else "")
    path = write(tmp_path / "trace.json", training(**{named: name}))
    program = "import sys; from gpu_report.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "trace", str(path), "--out", str(tmp_path / "tables")]

    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANGS_AFTER_S)

    assert "step time 1.00 ms" in run.stdout
    assert len(run.stdout) < 100_000
    assert all(table.stat().st_size < 100_000 for table in (tmp_path / "tables").iterdir())
