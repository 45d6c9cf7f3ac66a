"""`gpu-report compare` of two small bundles and folders, as a person or a gate calls it."""

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_report.bundles.packing import pack
from gpu_report.cli import main
from gpu_report.records.record import Record
from tests.factories import make_record
from tests.machine_results import make_plain_calibration, write_run

MACHINE = "xeon-2c"
EQUAL, OTHER, THIRD = (f"cnn-small-cpu-b{batch}-w0-fp32-e3" for batch in (8, 16, 32))

Compare = Callable[..., tuple[int, dict[str, Any]]]


def make(slug: str, **options: Any) -> Record:
    return make_record(
        slug, **{"machine": MACHINE, "throughput_per_s": 1000, "noise": 0.002, **options}
    )


def write_folder(folder: Path, *records: Record) -> Path:
    from gpu_report.records.calibration import CALIBRATION_FILE

    results = folder / records[0].machine
    for record in records:
        write_run(results / "runs" / record.variant, record)
    CALIBRATION_FILE.write(
        make_plain_calibration(records[0].machine, ["cpu"]), results / "calibration.json"
    )
    return results


def bundle(folder: Path, *records: Record) -> Path:
    target = folder / "bundle.tar.xz"
    results = write_folder(folder, *records)
    pack(results, target, machine=results.name, study="default", with_traces=False)
    return target


@pytest.fixture
def compare(tmp_path: Path) -> Compare:
    """The exit status and what --json has."""

    def call(before: Path, after: Path, *options: str) -> tuple[int, dict[str, Any]]:
        numbers = tmp_path / "numbers.json"
        status = main(["compare", str(before), str(after), "--json", str(numbers), *options])
        return status, json.loads(numbers.read_text("utf-8"))

    return call


def verdicts(document: Mapping[str, Any], what: str = "time per step") -> dict[str, str]:
    return {
        row["configuration"]: row["verdict"] for row in document["rows"] if row["compared"] == what
    }


def test_equal_bundles_show_no_regression(
    compare: Compare, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = [bundle(tmp_path / side, make(EQUAL), make(OTHER)) for side in ("one", "two")]

    status, document = compare(*sides)

    assert (status, document["status"]) == (0, 0)
    assert verdicts(document) == {EQUAL: "no change", OTHER: "no change"}
    printed = capsys.readouterr()
    assert EQUAL in printed.out
    assert printed.out.splitlines()[-1] == document["headline"]
    assert printed.err == ""


@pytest.mark.parametrize(
    ("after", "expected", "what", "found"),
    [
        (make(EQUAL, throughput_per_s=800), 1, "time per step", {EQUAL: "slower"}),
        (make(EQUAL, foreign_cpu_share=0.5), 2, "time per step", {EQUAL: "no verdict"}),
        (make(EQUAL, status="oom"), 1, "status", {EQUAL: "fails"}),
    ],
    ids=["slower", "background load", "out of memory"],
)
def test_a_verdict_decides_the_status_and_missing_and_new_configurations_are_named(
    compare: Compare,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    after: Record,
    expected: int,
    what: str,
    found: dict[str, str],
) -> None:
    sides = (
        bundle(tmp_path / "one", make(EQUAL), make(OTHER)),
        bundle(tmp_path / "two", after, make(THIRD)),
    )

    status, document = compare(*sides)

    assert (status, document["status"]) == (expected, expected)
    assert verdicts(document, what) == found
    assert (document["missing"], document["new"]) == ([OTHER], [THIRD])
    printed = capsys.readouterr().out
    assert all(name in printed for name in (EQUAL, OTHER, THIRD))


def test_a_bundle_and_the_folders_that_hold_it_are_alike(compare: Compare, tmp_path: Path) -> None:
    packed = bundle(tmp_path / "one", make(EQUAL))
    results = write_folder(tmp_path / "two/results/machines", make(EQUAL))

    for folder in (results, results.parent, results.parent.parent):
        assert compare(packed, folder)[0] == 0


def test_the_tolerance_decides_what_is_slower(compare: Compare, tmp_path: Path) -> None:
    before, after = (
        bundle(tmp_path / str(speed), make(EQUAL, throughput_per_s=speed)) for speed in (1000, 950)
    )

    assert [compare(before, after, "--tolerance", share)[0] for share in ("1", "10")] == [1, 0]


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["compare", *map(str, arguments)]) == 3
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    return line


def test_results_of_another_machine_are_refused_and_compared_when_asked_for(
    compare: Compare, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = bundle(tmp_path / "one", make(EQUAL))
    after = bundle(tmp_path / "two", make(EQUAL, machine="h100-x1"))

    line = refused(capsys, before, after)
    status, document = compare(before, after, "--across")

    assert "xeon-2c" in line
    assert "h100-x1" in line
    assert status == 0
    assert any("h100-x1" in note for note in document["notes"])


def test_results_without_a_common_configuration_are_refused_and_have_no_verdict_when_asked_for(
    compare: Compare, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = (bundle(tmp_path / slug, make(slug)) for slug in (EQUAL, OTHER))

    line = refused(capsys, before, after)
    status, document = compare(before, after, "--across")

    assert "--across" not in line
    assert "gpu-report machines" in line
    assert all(slug in line for slug in (EQUAL, OTHER))
    assert (status, document["rows"]) == (2, [])


def test_a_damaged_bundle_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound = bundle(tmp_path / "one", make(EQUAL))
    damaged = tmp_path / "damaged.tar.xz"
    damaged.write_bytes(sound.read_bytes()[:-100])

    for sides in ((sound, damaged), (damaged, sound)):
        assert str(damaged) in refused(capsys, *sides)


@pytest.mark.parametrize(
    ("option", "side", "named"), [("--json", 1, "AFTER"), ("--markdown", 0, "BEFORE")]
)
def test_a_bundle_is_not_overwritten_by_what_is_found_of_it(
    option: str, side: int, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = [bundle(tmp_path / name, make(EQUAL)) for name in ("one", "two")]
    link, content = tmp_path / "link", sides[side].read_bytes()
    link.symlink_to(sides[side])

    for written in (sides[side], link):
        line = refused(capsys, *sides, option, written)

        assert f"{option}: it is {written}, as {named} is" in line
    assert sides[side].read_bytes() == content


@pytest.mark.parametrize("kind", ["absent", "empty", "of several machines", "with a broken record"])
def test_what_holds_no_results_of_one_machine_is_refused(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = write_folder(tmp_path / "one", make(EQUAL))
    other = tmp_path / "other"
    if kind != "absent":
        other.mkdir()
    if kind == "of several machines":
        for machine in (MACHINE, "h100-x1"):
            write_folder(other, make(EQUAL, machine=machine))
    if kind == "with a broken record":
        (write_folder(other, make(EQUAL)) / "runs" / EQUAL / "record.json").write_text("{")

    assert "other" in refused(capsys, sound, other)


def test_many_configurations_of_one_side_take_a_line(
    compare: Compare, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [EQUAL, *(f"cnn-small-cpu-b{batch}-w0-fp32-e3" for batch in range(100, 120))]
    before, after = (
        write_folder(tmp_path / side, *map(make, slugs))
        for side, slugs in (("one", names), ("two", [EQUAL]))
    )

    _, document = compare(before, after)

    (line,) = (each for each in capsys.readouterr().out.splitlines() if "only before:" in each)
    assert line.endswith("15 more")
    assert len(document["missing"]) == 20


def test_a_trace_is_not_taken_for_a_damaged_bundle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "rank0.pt.trace.json.gz"
    trace.write_bytes(gzip.compress(b"{}"))

    line = refused(capsys, trace, trace)

    assert "trace-diff" in line
    assert "fetch" not in line


@pytest.mark.parametrize("tolerance", ["-1", "0", "100", "nan"])
def test_a_tolerance_that_is_none_is_refused(
    tolerance: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    side = write_folder(tmp_path, make(EQUAL))

    line = refused(capsys, side, side, f"--tolerance={tolerance}")

    assert "--tolerance" in line
    assert "above 0 and below 100" in line


@pytest.mark.parametrize(
    "arguments", [[], ["one"], ["one", "two", "--tolerance", "much"], ["one", "two", "--no-such"]]
)
def test_wrong_arguments_have_the_status_of_usage(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compare", *arguments])

    assert ended.value.code == 3
