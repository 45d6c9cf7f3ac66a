"""What docs/guard.md shows runs in a repository, its action reports what guard found, and its two
workflows keep a fork's code from what can write.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_report.bundles.packing import pack
from tests.factories import make_study
from tests.machine_results import write_results
from tests.workflow.pages import DOCS, blocks_of, commands, run, write_files

BLOCKS = blocks_of("guard.md")
MACHINE = "xeon-2c"
VERDICTS = (0, 1, 2)
"""Statuses with a verdict; which one depends on what else the machine does."""
OF_A_FUNCTION = "--loss model:loss"
ACTION = DOCS.parent / ".github" / "actions" / "guard" / "action.yml"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the page in a commit, two bundles, and two Pythons that are this one."""
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "A")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "a@localhost")
    folder = tmp_path / "repository"
    folder.mkdir()
    write_files(BLOCKS, folder)
    for side in ("old", "new"):
        python = folder / side / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        python.chmod(0o755)
    study = make_study()
    for side in ("before", "after"):
        results = write_results(
            tmp_path / side, study, machine=MACHINE, variants=[study.variants[0].slug]
        )
        pack(
            results, folder / f"{side}.tar.xz", machine=MACHINE, study="default", with_traces=False
        )
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "A training"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("section", dict.fromkeys(block.section for block in BLOCKS))
def test_what_a_section_shows_runs_in_a_repository_and_ends_with_a_verdict(
    section: str, repository: Path
) -> None:
    for block in BLOCKS:
        if block.section != section or block.file_name:
            continue
        for *shell, line in commands(block, repository):
            is_compared = line.startswith(("gpu-report guard", "gpu-report compare"))
            short = line.replace(OF_A_FUNCTION, f"{OF_A_FUNCTION} --seconds 0.3")

            printed = run([*shell, short], repository, statuses=VERDICTS if is_compared else (0,))

            assert not is_compared or re.search(
                r"^(no regression|regression in|no verdict on)", printed, re.MULTILINE
            )
            assert not re.search("^status", printed, re.MULTILINE), (
                printed
            )  # of a side without numbers


def test_every_block_is_a_file_or_run() -> None:
    assert {block.language for block in BLOCKS} == {"python", "sh"}
    assert [block.file_name for block in BLOCKS if block.language == "python"] == ["model.py"]


def workflow(name: str) -> dict[Any, Any]:
    """Its trigger is at `True`, which is what YAML 1.1 reads `on` as."""
    found: dict[Any, Any] = yaml.safe_load((DOCS / name).read_text("utf-8"))
    return found


def steps_of(name: str) -> list[dict[str, Any]]:
    (job,) = workflow(name)["jobs"].values()
    return list(job["steps"])


def test_the_workflow_that_runs_the_forks_code_has_no_secret_and_cannot_write() -> None:
    text = (DOCS / "guard.yml").read_text("utf-8")

    assert workflow("guard.yml")[True] == "pull_request"
    assert workflow("guard.yml")["permissions"] == {"contents": "read"}
    assert "${{" not in text
    assert steps_of("guard.yml")[0]["with"]["persist-credentials"] is False


def test_the_workflow_with_the_token_checks_nothing_out_and_runs_no_word_of_the_fork() -> None:
    found = workflow("guard-comment.yml")
    steps = steps_of("guard-comment.yml")

    assert found[True] == {
        "workflow_run": {"workflows": [workflow("guard.yml")["name"]], "types": ["completed"]}
    }
    assert found["permissions"] == {"actions": "read", "pull-requests": "write"}
    assert not any("checkout" in step.get("uses", "") for step in steps)
    assert not any("${{" in step.get("run", "") for step in steps)


def action() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(ACTION.read_text("utf-8"))
    return found


def step_of_action(name: str) -> dict[str, Any]:
    (step,) = (each for each in action()["runs"]["steps"] if each.get("name") == name)
    return dict(step)


def run_step(
    name: str, runner: Path, folder: Path, *, training: str = "model:build", verdict: str = "pass"
) -> subprocess.CompletedProcess[str]:
    """Run a step's script as a GitHub runner does, with its files and `bin` in this folder."""
    given = {
        "TRAINING": training,
        "BEFORE": "HEAD",
        "NO_VERDICT": verdict,
        "RUNNER_TEMP": str(runner),
        "GITHUB_OUTPUT": str(runner / "output"),
        "GITHUB_STEP_SUMMARY": str(runner / "summary"),
        "GITHUB_ACTION_PATH": str(ACTION.parent),
    }
    path = os.pathsep.join([str(runner / "bin"), str(Path(sys.executable).parent), os.defpath])
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step_of_action(name)["run"]],
        cwd=folder,
        env={**os.environ, **given, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def command(runner: Path, name: str, script: str) -> None:
    file = runner / "bin" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def test_the_workflow_and_the_script_name_what_the_action_takes() -> None:
    (used,) = (step for step in steps_of("guard.yml") if "guard" in step["uses"])
    measure = step_of_action("Measure")
    upload = action()["runs"]["steps"][-1]["with"]
    values = [*measure["env"].values(), *upload.values()]
    names = re.findall(r"inputs\.([\w-]+)", " ".join(values))

    assert used["uses"] == f"./{ACTION.parent.relative_to(DOCS.parent)}"
    assert set(used["with"]) <= set(names) == set(action()["inputs"])
    assert set(measure["env"]) <= set(re.findall(r"\$(\w+)", measure["run"]))


@pytest.mark.parametrize(
    ("status", "verdict", "expected"),
    [
        (0, "pass", 0),
        (1, "pass", 1),
        (2, "pass", 0),
        (2, "fail", 2),
        (3, "pass", 3),
        (143, "pass", 143),
    ],
)
def test_the_action_ends_with_guards_status_unless_no_verdict_passes(
    status: int, verdict: str, expected: int, tmp_path: Path
) -> None:
    command(tmp_path, "gpu-report", f'for file; do :; done; echo found > "$file"; exit {status}')

    ended = run_step("Measure", tmp_path, tmp_path, verdict=verdict)

    assert ended.returncode == expected
    assert (tmp_path / "output").read_text() == f"status={status}\n"
    assert (tmp_path / "summary").read_text() == (tmp_path / "guard.md").read_text() == "found\n"


def test_the_result_of_an_earlier_use_is_not_reported_where_guard_writes_none(
    tmp_path: Path,
) -> None:
    (tmp_path / "guard.md").write_text("no regression\n")
    command(tmp_path, "gpu-report", "exit 3")

    ended = run_step("Measure", tmp_path, tmp_path)

    assert ended.returncode == 3
    assert not (tmp_path / "guard.md").exists()
    assert not (tmp_path / "summary").exists()


@pytest.mark.parametrize("verdict", ["", "Pass", "pass fail", "fail\n::set-output name=status::0"])
def test_another_value_than_pass_or_fail_is_refused_in_one_line_before_anything_is_measured(
    verdict: str, tmp_path: Path
) -> None:
    (tmp_path / "guard.md").write_text("no regression\n")
    command(tmp_path, "gpu-report", "touch measured")

    ended = run_step("Measure", tmp_path, tmp_path, verdict=verdict)

    (line,) = ended.stderr.splitlines()
    assert ended.returncode == 3
    assert line.startswith("no-verdict: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin"]


def test_two_uses_in_one_run_can_upload_artifacts_of_two_names() -> None:
    upload = action()["runs"]["steps"][-1]
    download = steps_of("guard-comment.yml")[0]

    assert upload["with"]["name"] == "${{ inputs.artifact }}"
    assert action()["inputs"]["artifact"]["default"] == download["with"]["name"]


def test_a_word_of_an_input_is_given_to_guard_and_not_to_the_shell(tmp_path: Path) -> None:
    command(tmp_path, "gpu-report", """printf '%s\\n' "$@" > "$RUNNER_TEMP/words\"""")
    training = "model:build\n  --batch  m:b $(touch a) ; touch b *\n"

    ended = run_step("Measure", tmp_path, tmp_path, training=training)

    words = (tmp_path / "words").read_text().splitlines()
    assert ended.returncode == 0, ended.stderr
    assert words[:-2] == ["guard", "--before", "HEAD", *training.split()]
    assert not (tmp_path / "summary").exists()  # nothing was measured
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "output", "words"]


@pytest.mark.parametrize("commands", [["python"], ["python", "gpu-report"]], ids=len)
def test_the_action_installs_its_own_project_where_the_command_is_missing(
    commands: list[str], tmp_path: Path
) -> None:
    for name in commands:
        command(tmp_path, name, 'echo "$@" > asked')

    subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step_of_action("Install gpu-report if missing")["run"]],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}/bin:{os.defpath}", "GITHUB_ACTION_PATH": str(ACTION.parent)},
        check=True,
    )

    asked = tmp_path / "asked"
    assert asked.exists() is ("gpu-report" not in commands)
    if asked.exists():
        *pip, project = asked.read_text().split()
        assert pip == ["-m", "pip", "install"]
        assert (Path(project) / "pyproject.toml").samefile(DOCS.parent / "pyproject.toml")


@pytest.mark.slow
def test_the_action_measures_two_versions_of_a_repository(repository: Path, tmp_path: Path) -> None:
    training = "model:build_model --batch model:make_batch --loss model:loss --seconds 0.3"

    ended = run_step("Measure", tmp_path, repository, training=training)

    assert ended.returncode in VERDICTS, ended.stderr
    assert "model:build_model" in (tmp_path / "summary").read_text("utf-8")


GH = """#!{python}
import json, os, sys
with open("calls", "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
if "--jq" in sys.argv:
    print(os.environ["COMMENT"] if "comments" in sys.argv[3] else os.environ["NUMBER"])
"""


@pytest.mark.parametrize(
    ("number", "comment", "expected"),
    [
        ("7", "", ["POST", "repos/o/r/issues/7/comments"]),
        ("7", "3", ["PATCH", "repos/o/r/issues/comments/3"]),
        ("", "", None),
    ],
)
def test_one_comment_is_posted_or_updated_on_the_pull_request_of_the_event(
    number: str, comment: str, expected: list[str] | None, tmp_path: Path
) -> None:
    calls = calls_with(b"no regression\n", tmp_path, number=number, comment=comment)

    assert "head=fork:main" in calls[0]
    assert [call[2:4] for call in calls if "-F" in call] == ([expected] if expected else [])


@pytest.mark.parametrize(
    "written",
    [
        b"@" * 100_000,
        b"@team\n" * 30_000,
        "\u00b5\U0001f600".encode() * 50_000,
        "12.5 \u202e ms\u2066 \x1b[2J \r\x00".encode() + b"\xff\xed\xa0\x80",
    ],
    ids=["mentions", "lines", "characters", "controls"],
)
def test_the_text_of_the_fork_fits_into_a_comment_and_mentions_nobody(
    written: bytes, tmp_path: Path
) -> None:
    calls_with(written, tmp_path)

    body = (tmp_path / "body.md").read_text("utf-8")
    assert len(body) < 65_536
    assert not set("@\x1b\x00\r\u202e\u2066") & set(body)
    assert body.startswith("<!-- gpu-report guard -->\n")


def calls_with(
    written: bytes, tmp_path: Path, *, number: str = "7", comment: str = ""
) -> list[list[str]]:
    """What the second workflow's script asks of `gh` where guard wrote this in the first."""
    gh = tmp_path / "gh"
    gh.write_text(GH.format(python=sys.executable))
    gh.chmod(0o755)
    (tmp_path / "guard.md").write_bytes(written)
    given = {
        "NUMBER": number,
        "COMMENT": comment,
        "REPO": "o/r",
        "HEAD": "fork:main",
        "SHA": "f" * 40,
        "RUNNER_TEMP": str(tmp_path),
    }
    environment = {**os.environ, **given, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}

    script = steps_of("guard-comment.yml")[-1]["run"]
    subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=tmp_path, env=environment, check=True
    )

    return [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
