"""Whatever a file holds, no character of it is an order to the terminal that shows it, nor hidden
from the reader.
"""

import io
import json
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from gpu_report.bundles.manifest import Manifest
from gpu_report.bundles.shown_machines import Shown, ShownMachine
from gpu_report.cli import main
from gpu_report.printing.terminal import clean, new_console, say
from gpu_report.study.machine import Accelerator, Machine
from tests.factories import CONFIG, make_study
from tests.unit.traces.by_hand import RawEvent, kernel, launch, operation, span, step, write

ORDERS = (
    "\x00\x07\x08\r\x1b\x7f\x85\x9b\xad\u061c\u200b\u200e\u2028\u202e\u2066\u2069\ufeff\U000e0041"
)
WORST = f"\x1b[2J\x1b]0;title\x07{ORDERS}"
WITHOUT_SURROGATES = st.text(
    st.sampled_from(ORDERS) | st.characters(codec="utf-8"), min_size=1, max_size=30
)
HOSTILE = st.text(
    st.sampled_from(ORDERS + "\ud800\udcff") | st.characters(), min_size=1, max_size=30
)
STUDY = make_study()


def hidden_or_obeyed(text: str) -> set[str]:
    categories = ((char, unicodedata.category(char)) for char in set(text) - {"\n", "\t"})
    return {
        ascii(char)
        for char, category in categories
        if category[0] == "C" or category in {"Zl", "Zp"}
    }


def printed(*arguments: str | Path) -> str:
    """What a command writes to standard output and error; it succeeds, or says in one line
    why not.
    """
    output, errors = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        status = main([*map(str, arguments)])
    assert status == 0 or errors.getvalue().count("\n") == 1
    output.seek(0)
    return output.read() + errors.getvalue()


@contextmanager
def replaced(module: str, **values: object) -> Iterator[None]:
    """Functions of a command's module that give these values."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setattr(
                f"gpu_report.commands.{module}.{name}", lambda *_, value=value, **__: value
            )
        yield


def machine_with(text: str) -> Machine:
    accelerators = (Accelerator(backend="cuda", name=text, memory_gib=80.0),)
    return Machine(
        cpu_model=text, cores=2, memory_gib=8.0, accelerators=accelerators, accelerator_reason=text
    )


def manifest_with(text: str) -> Manifest:
    return Manifest.model_construct(
        schema_version=1,
        record_schema_version=1,
        gpu_report=text,
        machine="h100",
        hardware=text,
        devices=["cpu", "cuda"],
        study=text,
        with_traces=False,
        dirty_records=0,
        records=1,
        measured_at=text,
        files=[],
    )


@given(HOSTILE)
@example(WORST)
def test_a_cleaned_text_holds_no_order_and_is_not_cleaned_twice(text: str) -> None:
    assert not hidden_or_obeyed(clean(text))
    assert not {"\n", "\t"} & {*clean(text, keep="")}
    assert clean(clean(text)) == clean(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("a\u202eb", r"a\u202eb"),
        ("\ud800", r"\ud800"),
        ("a\r\n\tb", "a\\r\n\tb"),
        ("Größe 3 µs ✓ 名前 \u00a0é", "Größe 3 µs ✓ 名前 \u00a0é"),
    ],
)
def test_an_order_is_shown_escaped_and_words_as_they_are(text: str, shown: str) -> None:
    assert clean(text) == shown


@given(HOSTILE)
def test_what_is_said_or_put_into_a_table_is_clean(text: str) -> None:
    output = io.StringIO()
    with redirect_stdout(output):
        say(text)
        console = new_console()
        table = Table("name", box=None)
        table.add_row(text)
        table.add_row(Text(text))
        console.print(table)
        console.print(Text(text), soft_wrap=True)
        console.rule(text)

    assert not hidden_or_obeyed(output.getvalue())


def test_what_standard_output_cannot_encode_is_replaced() -> None:
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with redirect_stdout(output):
        say("3 µs")
        new_console().print("█ 名")
    output.seek(0)

    assert output.read() == "3 ?s\n? ?\n"


def test_rich_is_imported_once_a_table_is_printed() -> None:
    program = (
        "import sys; from gpu_report.printing.terminal import say; say('a'); sys.exit('rich' in "
        "sys.modules)"
    )

    subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)


@settings(max_examples=20)
@given(WITHOUT_SURROGATES)
@example(WORST)
@example("/")
def test_a_trace_prints_and_writes_no_order(text: str) -> None:
    with TemporaryDirectory() as folder:
        path = write(Path(folder) / "trace.json", events_with(text), **metadata_with(text))
        shown = printed("trace", path, "--out", Path(folder) / "tables") + printed(
            "trace-diff", path, path
        )
        tables = [table.read_bytes().decode() for table in Path(folder).rglob("*.csv")]

    assert "step time" in shown
    assert len(tables) > 10
    assert not hidden_or_obeyed(shown + "".join(tables))
    assert "\t" not in "".join(tables)


@pytest.mark.parametrize("place", ["name", "cat", "tid", "args", "metadata", "device"])
def test_half_a_character_in_a_trace_ends_in_one_line_or_is_shown_escaped(
    place: str, tmp_path: Path
) -> None:
    events, metadata = events_with("a"), metadata_with("a")
    if place == "metadata":
        metadata["\ud800"] = "\ud800"
    elif place == "device":
        metadata = metadata_with("\ud800")
    else:
        events[-1][place] = {"odd": "\ud800", "grid": ["\ud800"]} if place == "args" else "\ud800"
    path = write(tmp_path / "trace.json", events, **metadata)
    path.with_name("raw.json").write_bytes(
        path.read_bytes().replace(rb"\ud800", "\ud800".encode("utf-8", "surrogatepass"))
    )

    for each in (path, path.with_name("raw.json")):
        assert not hidden_or_obeyed(printed("trace", each, "--out", tmp_path / "tables"))


@settings(max_examples=15)
@given(HOSTILE)
@example(WORST)
def test_records_and_machines_print_no_order(text: str) -> None:
    study, here = replace(STUDY, title=text, name=text), machine_with(text)
    shown = Shown(machines=(ShownMachine(id="h100", study=study, bundle=None),) * 2, notes=())

    with (
        replaced("overview", find_machine=here, load_study=study, state_of=("failed", text)),
        replaced("planning", choose_machines=shown),
    ):
        listed = (
            printed("list", "--configfile", CONFIG)
            + printed("plan", "--configfile", CONFIG)
            + printed("machine")
        )
    published = Path(text), manifest_with(text)
    with replaced("bundles", find_machine=here, find_bundles={"h100": published}):
        machines = printed("machines")

    assert "failed" in listed
    assert "h100" in machines
    assert not hidden_or_obeyed(listed + machines)


def events_with(text: str) -> list[RawEvent]:
    """One step in which every word of the profiler is the text, besides those that say what an
    event is.
    """
    on_host, on_device = (100, text), (0, f"stream {text}")
    described = operation(f"aten::{text}", 100, 300, on=on_host)
    described["args"] |= {"Input Dims": [[2, text]], "Concrete Inputs": [text]}
    working = kernel(f"void {text}", 200, 500, on=on_device, correlation=1)
    working["args"] |= {"grid": [text], "block": [text], f"{text} too": text}
    return [
        step(1, 0, 1000),
        span("user_annotation", text, 1, 900, on=on_host),
        span("python_function", f"{text}.py(1): {text}", 0, 1000, on=on_host),
        span(text, text, 0, 1000, on=on_host),
        described,
        launch(1, 150, 10, on=on_host),
        launch(2, 160, 10, on=on_host),
        span("cuda_runtime", f"cuda{text}", 600, 100, on=on_host, correlation=3),
        working,
        kernel(text, 800, 20, on=(text, text), correlation=2),
    ]


def metadata_with(text: str) -> dict[str, object]:
    device = {"id": 0, "name": text, "totalGlobalMem": 2**30, "computeMajor": 9}
    return {
        "deviceProperties": [device],
        "gpu_report_run": text,
        "traceName": text,
        f"{text} too": json.dumps(text),  # no key of the profiler
    }
