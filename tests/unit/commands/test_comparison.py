"""One comparison in the terminal, as a comment on a pull request and for a program."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from gpu_report.commands.comparison import (
    MOST_CHARACTERS,
    Comparison,
    as_json,
    as_markdown,
    changes_where_slower,
    show,
)
from gpu_report.printing.terminal import new_console
from gpu_report.tables.verdicts import (
    NO_CHANGE,
    NO_VERDICT,
    REGRESSIONS,
    TIME,
    Side,
    tabulate_verdicts,
)
from gpu_report.traces.kernels import KERNELS
from gpu_report.traces.steps import STEPS
from gpu_report.traces.tables import TraceTables

NAME = "cnn-small-cpu-b16-w0-fp32-e3"
PROCESSES = 6


def side(step_ms: float, **other: Any) -> Side:
    return Side(
        step_times_ms={index: step_ms * (1 + index / 1e4) for index in range(PROCESSES)}, **other
    )


def comparison(sides: Mapping[str, tuple[Side, Side]], **other: Any) -> Comparison:
    return Comparison(
        **{
            "before": "main",
            "after": "worktree",
            "how": "measured in turns",
            "rows": tabulate_verdicts(sides, in_turns=True),
            **other,
        }
    )


SLOWER = comparison({NAME: (side(10), side(12))})


def shown(found: Comparison, capsys: pytest.CaptureFixture[str]) -> str:
    show(found, new_console(unwrapped_when_piped=True))
    return capsys.readouterr().out


def test_the_verdict_is_the_last_line_of_the_terminal_and_the_first_of_the_comment(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert shown(SLOWER, capsys).splitlines()[-1] == SLOWER.headline
    assert NAME in as_markdown(SLOWER).splitlines()[0]
    assert SLOWER.status == 1


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], 2),
        ([NO_CHANGE, "faster", "not slower", "less memory", "better", "runs"], 0),
        ([NO_CHANGE, NO_VERDICT], 2),
        *[([NO_CHANGE, NO_VERDICT, regression], 1) for regression in sorted(REGRESSIONS)],
    ],
)
def test_a_regression_decides_the_exit_status_before_what_has_no_verdict(
    verdicts: list[str], expected: int
) -> None:
    rows = [{"verdict": each, "compared": TIME} for each in verdicts]

    assert comparison({}, rows=rows).status == expected


def test_what_a_terminal_would_obey_is_shown_and_brackets_are_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = comparison(
        {"[bold]\x1b[2J": (side(1), Side(status="failed", reason="cannot open [/data/x]"))}
    )

    printed = shown(found, capsys)

    assert "\x1b" not in printed
    assert "[bold]" in printed
    assert "[/data/x]" in printed


def unescaped(character: str, text: str) -> list[str]:
    return re.findall(rf"(?<!\\){re.escape(character)}", text)


def test_what_a_repository_named_is_safe_for_markdown() -> None:
    nasty = (
        "`a|b` @team <img src=x> [x](http://y) #1 *b*\nnew $x$ ~~gone~~ https://example.org "
        ":tada: \u202e12.5\u2066 \x1b[2J \x00 a: b"
    )
    found = comparison(
        {
            nasty: (side(10), side(12)),
            f"{nasty} 2": (side(10), Side(status="failed", reason=nasty)),
        },
        before=nasty,
        after=nasty,
        notes=[nasty],
        missing=[nasty],
        repeat=f"gpu-report guard '{nasty}\n```\n@team'",
    )

    text, _, repeated = as_markdown(found).partition("To repeat:")

    assert found.status == 1
    assert not set("@<$\x1b\x00\u202e\u2066") & set(text)
    assert [each for each in "[`~" if unescaped(each, text)] == []
    assert unescaped("#", text.removeprefix("###").replace("&#64;", "")) == []
    assert not re.search(r"://|:tada:", text)
    assert "a: b" in text
    assert "\\u202e12.5" in text
    for line in text.splitlines():
        if line.startswith("|"):
            assert len(unescaped("|", line)) == 6
    assert not set("\x1b\x00\u202e\u2066") & set(repeated)
    assert len([line for line in repeated.splitlines() if line.startswith("`")]) == 2


@pytest.mark.parametrize("configurations", [1, 500, 5000])
def test_a_comment_is_short_enough_for_github_and_begins_with_the_verdict(
    configurations: int,
) -> None:
    sides = {
        f"resnet50-224px-cuda-b{batch}-w8-bf16-channelslast": (side(10), side(12))
        for batch in range(configurations)
    }
    found = comparison(sides, notes=["x" * 1000] * 100)

    text = as_markdown(found)

    assert len(text) <= MOST_CHARACTERS <= 65_000
    assert str(configurations) in text.splitlines()[0]
    assert "resnet50-224px-cuda-b0-w8" in text
    if configurations > 1:
        assert "| resnet50-224px-cuda-b1-w8" in text


def test_json_has_every_number_and_null_for_what_was_not_measured() -> None:
    found = comparison(
        {"a": (side(10), side(12)), "b": (side(10), Side(status="oom", reason="too large"))},
        new=["c"],
    )

    document = json.loads(as_json(found), parse_constant=pytest.fail)

    assert document["status"] == found.status == 1
    assert document["rows"][0]["change"] == pytest.approx(0.2)
    assert document["rows"][1]["change"] is None
    assert document["rows"][1]["why"]
    assert document["new"] == ["c"]


def test_a_change_in_a_trace_is_shown_with_its_sign(capsys: pytest.CaptureFixture[str]) -> None:
    change = {"device": "cuda", "a_calls": 4.0, "b_calls": 8.0}
    rows = [
        {"level": "step", "name": "step", **change, "a_ms": 10.0, "b_ms": 12.0, "change_ms": 2.0},
        {
            "level": "kernel",
            "name": "a|b<T>@x",
            **change,
            "a_ms": 1.0,
            "b_ms": 3.0,
            "change_ms": 2.0,
        },
        {"level": "kernel", "name": "gone", **change, "a_ms": 1.0, "b_ms": None, "change_ms": None},
    ]
    found = comparison({NAME: (side(10), side(12))}, changes={NAME: rows})

    printed, text = shown(found, capsys), as_markdown(found)

    assert "+2" in printed
    assert "a|b<T>@x" in printed
    assert "gone" not in printed
    assert "@x" not in text
    assert json.loads(as_json(found))["changes"][NAME][2]["change_ms"] is None


def traced(step_ms: float, kernel_ms: float) -> TraceTables:
    step = dict.fromkeys(STEPS.column_names) | {"wall_ms": step_ms}
    kernel = {"name": "gemm", "category": "matmul", "total_ms": kernel_ms, "calls": 1}
    return {STEPS: [step], KERNELS: [kernel]}


def test_a_slower_configuration_whose_profiled_step_is_no_longer_has_no_table_but_a_note() -> None:
    rows = tabulate_verdicts({NAME: (side(10), side(12))}, in_turns=True)
    before, after, longer = traced(1.87, 1.40), traced(1.79, 1.45), traced(2.10, 1.45)

    changes, notes = changes_where_slower(rows, lambda _: (before, after))

    assert changes == {}
    (note,) = notes
    assert note.startswith(NAME)
    assert "1.87 ms before and 1.79 ms after" in note
    changes, notes = changes_where_slower(rows, lambda _: (before, longer))
    assert (list(changes), notes) == ([NAME], [])
