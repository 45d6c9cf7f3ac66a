"""The page of a profile has what its tables have, with scripts and without, and nothing in it is
taken for markup.
"""

import re
from html import unescape
from pathlib import Path
from typing import Any

from gpu_report.glossary import Row
from gpu_report.page.profile import render_profile
from gpu_report.traces.kernels import KERNELS
from gpu_report.traces.operations import OPERATIONS
from gpu_report.traces.quality import QUALITY, WORK_ON_DEVICE, Gate, row_of
from gpu_report.traces.timeline import TIMELINE
from tests.browser import browser, needs_chromium
from tests.trace_frames import make_trace_tables
from tests.unit.page.test_page import HOSTILE, csv_values, data_of

TABLES = make_trace_tables("unet-128px-cuda-b16-w0-fp32-e5")
TIMES_MS = [20.0, 21.0, 19.0, 20.5]
BLOCKS: list[Row] = [
    {"block": number, "time_ms": time_ms, "data_wait_share": float("nan"), "in_use_mib": 100.0}
    for number, time_ms in enumerate(TIMES_MS, start=1)
]


def page(**given: Any) -> str:
    usual: dict[str, Any] = {
        "card": "limit    kernels",
        "facts": {"Device": "CUDA"},
        "blocks": BLOCKS,
        "parts": [{"part": "kernels", "share": 0.9}, {"part": "launch", "share": 0.1}],
        "suggestions": [
            {"finding": "It waits.", "remedy": "More work.", "at_stake": 0.5, "gain": 2.0}
        ],
        "gate": Gate(TABLES),
    }
    return render_profile(**{**usual, **given})


def text_without_scripts(page: str) -> str:
    return unescape(re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL))


def test_operations_kernels_and_timeline_have_the_numbers_of_the_trace_tables() -> None:
    data = data_of(page())
    own_ms = {(row["name"], row["device"], row["self_ms"]) for row in TABLES[OPERATIONS]}

    operations = data["operations"]["rows"]
    shown = zip(operations, csv_values(data["operations"]), strict=True)
    assert {
        (row[0], row[1].lower().replace("gpu", "cuda"), values["self_ms"]) for row, values in shown
    } == own_ms
    assert [row[1] for row in operations] == sorted((row[1] for row in operations), reverse=True)
    totals_ms = sorted((row["total_ms"] for row in TABLES[KERNELS]), reverse=True)
    assert [row["total_ms"] for row in csv_values(data["kernels"])] == totals_ms[:10]
    assert data["timelines"][""]["begin"] == [row["begin_ms"] for row in TABLES[TIMELINE]]


def test_without_scripts_every_table_is_there() -> None:
    text = text_without_scripts(page())

    assert "limit    kernels" in text
    assert all(row["name"] in text for row in TABLES[OPERATIONS])
    assert "It waits." in text
    assert "20.5" in text


def test_nothing_is_taken_for_markup() -> None:
    parts = {"finding": HOSTILE, "remedy": HOSTILE, "at_stake": 0.5, "gain": 2.0}

    text = page(card=HOSTILE, facts={HOSTILE: HOSTILE}, suggestions=[parts])

    assert "<b onclick" not in text
    assert text.count("</script>") == 2


def test_no_name_turns_around_or_hides_what_follows_it() -> None:
    controls = "\u202e\u2066\u200f\u061c\x1b\x00\x85"
    seen = r"\u202e\u2066\u200f\u061c\x1b\x00\x85"
    parts = {"finding": controls, "remedy": controls, "at_stake": 0.5, "gain": 2.0}
    kernels = [{**row, "name": f"gemm{controls}"} for row in TABLES[KERNELS]]

    text = page(
        card=controls,
        facts={controls: controls},
        suggestions=[parts],
        gate=Gate({**TABLES, KERNELS: kernels}),
    )

    names = [row[1] for row in data_of(text)["kernels"]["rows"]]
    assert names == [f"gemm{seen}"] * len(kernels)
    assert text.count(seen) >= 5
    assert not set(controls) & set(text)


def test_what_a_check_does_not_let_through_is_left_out_and_said() -> None:
    failed = row_of(
        "c", 2.0, 1.0, passed=False, text="two events were lost", invalidates=WORK_ON_DEVICE
    )

    text = page(gate=Gate({**TABLES, QUALITY: [failed]}))

    assert data_of(text)["kernels"]["rows"] == []
    assert {row[1] for row in data_of(text)["operations"]["rows"]} == {"CPU"}
    assert "two events were lost" in text


@needs_chromium
def test_a_browser_draws_sorts_and_zooms_without_a_network(tmp_path: Path) -> None:
    file = tmp_path / "profile.html"
    file.write_text(page(), "utf-8")
    use = """
        const frame = () => new Promise((done) => requestAnimationFrame(done));
        const count = (what) => document.querySelectorAll(what).length;
        while (!count("#timeline-chart svg rect")) await frame();
        const heads = [...document.querySelectorAll("#operations-table th button")];
        const head = heads.find((each) => each.textContent === "calls");
        head.click();
        const bars = count("#timeline-chart svg rect");
        const zoom = document.querySelector("[aria-label='Zoom in']");
        for (let press = 0; press < 4; press++) zoom.click();
        return { bars, zoomed: count("#timeline-chart svg rect"),
                 rows: count("#operations-table tbody tr"),
                 sorted: head.parentElement.getAttribute("aria-sort"),
                 kernels: count("#kernels-table tbody tr") };
    """

    with browser(tmp_path / "chromium") as tab:
        tab.open(file)
        seen = tab.run(use)

        assert tab.complaints == []
        assert tab.requests == [file.as_uri()]
    assert seen["bars"] == len(TABLES[TIMELINE])
    assert 0 < seen["zoomed"] < seen["bars"]
    assert seen["rows"] == len(TABLES[OPERATIONS])
    assert seen["sorted"] == "ascending"
    assert seen["kernels"] > 0
