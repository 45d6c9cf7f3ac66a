"""The page of machines agrees with its bundles; what does not is named."""

import gzip
import json
import shutil
from base64 import b64encode
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpu_report.bundles.packing import pack
from gpu_report.cli import main
from gpu_report.glossary import Row
from gpu_report.page.machines import refused_row, render_machines
from gpu_report.study.study import Prices
from gpu_report.tables import bundle
from scripts.check_machines import DATA, differences, passed_over
from scripts.check_machines import main as check
from tests.factories import CONFIG, make_study
from tests.machine_results import write_results
from tests.unit.page.test_page import data_of

PROJECT = Path(__file__).parents[2]
H200 = "h200-140gb-x1-xeon-16c.tar.xz"
PAGE = Path("machines.html")
PUBLISHED = Path("results/published")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project that published nothing, and is where the commands run."""
    (tmp_path / "config").mkdir()
    shutil.copy(CONFIG, tmp_path / "config")
    (tmp_path / PUBLISHED).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)


def publish(machine: str, change: Callable[[str], str] = str) -> None:
    """Pack the language model, and an image model on CPU and GPU, with records changed so."""
    study = make_study()
    slugs = [
        variant.slug
        for variant in study.variants
        if variant.workload in ("gpt2", "cnn") and not variant.accumulation > 1
    ]
    results = write_results(Path("measured"), study, machine=machine, variants=slugs)
    for path in results.glob("runs/*/record.json"):
        path.write_text(change(path.read_text("utf-8")), "utf-8")
    pack(
        results,
        PUBLISHED / f"{machine}.tar.xz",
        machine=machine,
        study="default",
        with_traces=False,
    )


def with_data(change: Callable[[dict[str, Any]], None]) -> None:
    """Change what the page prints."""
    text = PAGE.read_text("utf-8")
    data = data_of(text)
    change(data)
    packed = b64encode(gzip.compress(json.dumps(data).encode())).decode()
    found = DATA.search(text)
    assert found is not None
    PAGE.write_text(text.replace(found[1], packed), "utf-8")


def test_the_page_of_a_published_bundle_follows_from_its_records() -> None:
    shutil.copy(PROJECT / PUBLISHED / H200, PUBLISHED)

    assert main(["machines", "--html", str(PAGE)]) == 0

    assert check([str(PAGE)]) == 0
    assert len(data_of(PAGE.read_text("utf-8"))["machines"]["rows"]) == 8


def test_tokens_and_prices_are_recomputed_and_each_changed_number_is_named() -> None:
    config = Path("config/study.yaml")
    text = config.read_text("utf-8")
    config.write_text(text.replace("per_device_hour: null", "per_device_hour: 2.5"), "utf-8")
    publish("h100-x1-xeon-2c")
    assert main(["machines", "--html", str(PAGE)]) == 0
    assert [*differences(PAGE)] == []

    def change(data: dict[str, Any]) -> None:
        names = [column["csv"] for column in data["machines"]["columns"]]
        (row,) = (each for each in data["machines"]["rows"] if "GPT-2 124M" in each)
        for name in ("tokens_per_s", "price_per_million"):
            row[names.index(name)][0] *= 1.001
        row[names.index("fastest")][1] = "1,000,000"
        row[names.index("mfu")] = None

    with_data(change)

    found = [*differences(PAGE)]
    assert [line.partition(" is ")[0].partition(": ")[2] for line in found] == [
        "fastest",
        "fastest, in tokens",
        "MFU",
        "price of a million samples",
    ]
    assert all(line.startswith("h100-x1-xeon-2c.tar.xz, GPT-2 124M: ") for line in found)
    assert check([str(PAGE)]) == 1


def test_a_page_whose_fastest_is_a_slower_record_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def slowest_of(rows: Sequence[Row]) -> Row:
        return min(rows, key=lambda row: float(row["throughput_per_s"]))

    publish("h100-x1-xeon-2c")
    monkeypatch.setattr(bundle, "fastest_of", slowest_of)
    assert main(["machines", "--html", str(PAGE)]) == 0

    found = [line.partition(": ")[2] for line in differences(PAGE)]

    assert found == [
        "fastest is gpt2-124m-cuda-b32-w0-tf32-e2x3, but "
        "gpt2-124m-cuda-b32-w0-bf16-e2x3-flash+fused+graphs+compile is faster",
        "fastest is cnn-medium-cuda-b256-w0-fp32-e15, but cnn-medium-cuda-b1024-w0-fp32-e15 is "
        "faster",
    ]


EAGER, SHOWN, FASTER = (f"cnn-medium-cuda-b{size}-w0-fp32-e15" for size in (64, 256, 1024))


def records_of_three() -> dict[str, Any]:
    """The eager baseline, and two faster records."""
    names = [EAGER, SHOWN, FASTER]
    results = write_results(Path("measured"), make_study(), machine="xeon-2c", variants=names)
    return {name: json.loads((results / f"runs/{name}/record.json").read_text()) for name in names}


@pytest.mark.parametrize("name", ["fastest", "fastest_cpu"])
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"status": "oom"},
        {"measurement": {"protocol": {"version": 1}}},
        {"provenance": {"boot": "another"}},
        {"measurement": {"variant": {"size": "large"}}},
        {"measurement": {"variant": {"device": "cpu"}}},
        {"measurement": {"variant": {"options": "nocomm"}}},
        {"measurement": {"variant": {"options": "persistent"}}},
        {"measurement": {"variant": {"strategy": "ddp", "devices": 2}}},
    ],
    ids=str,
)
def test_only_a_comparable_record_is_the_faster_one(name: str, change: dict[str, Any]) -> None:
    records = records_of_three()
    records[FASTER] = changed(records[FASTER], change)

    found = [*passed_over({"eager": EAGER, name: SHOWN}, records)]

    assert found == ([] if change else [(name, FASTER)])


def changed(record: Any, change: Any) -> Any:
    """The record with the values of the innermost mappings replaced."""
    if not isinstance(change, dict):
        return change
    return record | {key: changed(record.get(key), value) for key, value in change.items()}


def test_a_record_within_chance_of_the_eager_baseline_is_no_faster_one() -> None:
    records = records_of_three()
    del records[SHOWN]
    source = {"eager": EAGER, "fastest": EAGER}
    assert [*passed_over(source, records)] == [("fastest", FASTER)]

    for factor, process in enumerate(records[FASTER]["repetitions"], start=1):
        for epoch in process["epochs"]:
            epoch["wall_time_s"] *= factor / 3

    assert [*passed_over(source, records)] == []


def test_a_bundle_that_cannot_be_shown_has_a_row_with_the_reason_and_fails_the_check(
    capsys: pytest.CaptureFixture[str],
) -> None:
    publish("xeon-2c")
    publish("xeon-4c", lambda text: text.replace('"version":4', '"version":5'))
    Path(PUBLISHED, "xeon-8c.tar.xz").write_bytes(b"cut")

    assert main(["machines", "--html", str(PAGE)]) == 0

    said = capsys.readouterr().err
    assert "protocol version 5" in said
    assert "xeon-8c.tar.xz is damaged" in said
    assert [line.split()[0] for line in differences(PAGE)] == ["xeon-4c.tar.xz", "xeon-8c.tar.xz"]


def test_a_bundle_that_the_page_lacks_is_named() -> None:
    PAGE.write_text(render_machines([refused_row(Path("a.tar.xz"), "cut")], Prices()), "utf-8")
    Path(PUBLISHED, "b.tar.xz").touch()

    assert [*differences(PAGE)] == ["b.tar.xz is not on the page", "a.tar.xz is not shown: cut"]


def test_without_a_bundle_there_is_no_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines", "--html", str(PAGE)]) == 2

    assert "has no bundle" in capsys.readouterr().err
    assert not PAGE.exists()
