"""One comparison in the terminal, as a comment on a pull request and for a program."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gpu_report.commands.comparison import MOST_CHARACTERS, Comparison, as_json, as_markdown, show
from gpu_report.glossary import Row
from gpu_report.printing.terminal import new_console
from gpu_report.tables.verdicts import (
    NO_CHANGE,
    NO_VERDICT,
    REGRESSIONS,
    TIME,
    Side,
    tabulate_verdicts,
)

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


def test_a_missing_configuration_and_a_status_alone_have_no_verdict() -> None:
    same = {NAME: (side(10), side(10))}

    assert comparison(same).status == 0
    assert comparison(same, missing=["other"]).status == 2
    assert comparison({NAME: (Side(status="oom"), Side(status="oom"))}).status == 2


def test_the_mean_of_a_doubling_and_a_halving_is_no_change() -> None:
    found = comparison({"a": (side(1), side(2)), "b": (side(2), side(1))})

    assert " 0 %" in found.mean


def test_times_are_always_shown_and_of_the_rest_only_what_changed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    memory = dict.fromkeys(range(PROCESSES), 100.0)
    more = dict.fromkeys(range(PROCESSES), 200.0)
    found = comparison(
        {
            "a": (side(10, memory_mib=memory), side(10, memory_mib=more)),
            "b": (side(10, memory_mib=memory),) * 2,
        }
    )

    titles = {
        title.partition(" (")[0]: [row[0] for row in rows] for title, rows, _ in found.sections()
    }

    assert titles == {"time per step": ["a", "b"], "peak memory": ["a"]}
    assert "200 MiB" in shown(found, capsys)


def test_a_reason_is_said_once_for_all_that_it_holds_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    doubted = side(10, doubts=["background load"])

    printed = shown(comparison({name: (side(10), doubted) for name in ("a", "b", "c")}), capsys)

    (line,) = [line for line in printed.splitlines() if "background load" in line]
    assert line.endswith("a, b, c")


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


def test_names_and_reasons_are_safe_for_markdown() -> None:
    nasty = "`a|b` @team <img src=x> [x](http://y) #1 *b*\nnew"
    found = comparison(
        {
            nasty: (side(10), side(12)),
            f"{nasty} 2": (side(10), Side(status="failed", reason=nasty)),
        },
        before=nasty,
        after=nasty,
        notes=[nasty],
        missing=[nasty],
    )

    text = as_markdown(found)

    assert found.status == 1
    assert "@" not in text
    assert "<" not in text
    assert unescaped("[", text) == []
    assert unescaped("`", text) == []
    assert unescaped("#", text.removeprefix("###").replace("&#64;", "")) == []
    for line in text.splitlines():
        if line.startswith("|"):
            assert len(unescaped("|", line)) == 6


def test_a_name_is_no_formula_no_link_no_emoji_and_turns_nothing_around_in_markdown() -> None:
    nasty = (
        "$x$ ~~gone~~ https://example.org :tada: :white_check_mark: \u202e12.5\u2066 \x1b[2J \x00 "
        "a: b"
    )
    found = comparison(
        {nasty: (side(10), side(12))},
        before=nasty,
        notes=[nasty],
        repeat=f"gpu-report guard '{nasty}'",
    )

    text, _, repeated = as_markdown(found).partition("To repeat:")

    assert not set("$\x1b\x00\u202e\u2066") & set(text)
    assert unescaped("~", text) == []
    assert not re.search(r"://|:tada:|:white", text)
    assert "a: b" in text
    assert "\\u202e12.5" in text
    assert not set("\x1b\x00\u202e\u2066") & set(repeated)


def test_a_command_to_repeat_cannot_end_its_block() -> None:
    found = comparison({NAME: (side(1), side(1))}, repeat="gpu-report guard 'a\n```\n@team'")

    text = as_markdown(found)

    fences = [line for line in text.splitlines() if line.startswith("`")]
    assert len(fences) == 2


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


@pytest.mark.parametrize(
    "rows", [[], tabulate_verdicts({NAME: (side(1), Side(status="oom"))}, in_turns=True)]
)
def test_without_times_there_is_neither_a_mean_nor_a_resolution(
    rows: Sequence[Row], capsys: pytest.CaptureFixture[str]
) -> None:
    found = comparison({}, rows=rows)

    assert (found.mean, found.resolution) == ("", "")
    assert "nan" not in shown(found, capsys)
    assert "nan" not in as_markdown(found)


def test_the_resolution_is_that_of_the_rows_and_the_mean_needs_two() -> None:
    found = comparison({"a": (side(10), side(12)), "b": (side(10), side(10))})
    detectable = [row["detectable"] for row in found.rows]

    assert not any(map(math.isnan, detectable))
    assert found.resolution
    assert found.mean
    assert SLOWER.mean == ""


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
