"""The process of a side answers each task, whatever happens to the training, and ends with its
input.
"""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from gpu_report.guard.messages import Task
from gpu_report.guard.versions import Version
from tests.unit.guard.sides import MODEL, VARIANT, agent_of, ask, make_side, make_task


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Version:
    return make_side(tmp_path_factory.mktemp("side"))


def of_study(version: Version, configuration: str = VARIANT) -> Task:
    return Task(
        configuration=configuration,
        configfile="tiny.yaml",
        machine_file=str(version.folder / "machine.json"),
        folder=str(version.folder),
        index=1,
        trace_folder="",
    )


@pytest.mark.slow
def test_pairs_begin_alike_and_the_metric_is_that_of_the_trained_model(version: Version) -> None:
    metric: dict[str, Any] = {"metric": f"{MODEL}:weight", "loss_steps": 2}
    found = [ask(version, make_task(version, index=index, **metric)) for index in (1, 1, 2)]

    assert found[0].quality == found[1].quality != found[2].quality
    assert len(found[2].quality) == 1
    diverged = ask(version, make_task(version, metric=f"{MODEL}:no_number", loss_steps=2))
    assert (diverged.status, diverged.diverged) == ("ok", True)
    assert diverged.step_times_ms
    assert not diverged.quality


@pytest.mark.slow
def test_a_configuration_of_a_study_answers_with_numbers_metric_and_trace(
    version: Version, tmp_path: Path
) -> None:
    answer = ask(version, of_study(version))
    profiled = msgspec.structs.replace(of_study(version), trace_folder=str(tmp_path))

    assert (answer.status, answer.reason, answer.memory_kind) == ("ok", "", "resident set")
    (step_time_ms,), (memory_mib,) = answer.step_times_ms.values(), answer.memory_mib.values()
    assert step_time_ms > 0 < memory_mib
    (quality,) = answer.quality.values()
    assert 0 <= quality <= 1
    assert (answer.quality_name, answer.better) == ("accuracy", "higher")
    assert {"torch", "cpu_model"} <= answer.environment.keys()
    assert ask(version, profiled).status == "ok"
    assert len([*tmp_path.glob("*.pt.trace.json.gz")]) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("training", "named"),
    [
        ({"build": f"{MODEL}:no_such_function"}, "no_such_function"),
        ({"build": f"{MODEL}:build_with_two_lines"}, "the first line"),
        ({"loss": f"{MODEL}:loss_without_a_number"}, "nan"),
        ({"precision": "fp7"}, "fp7"),
    ],
)
def test_what_cannot_be_trained_is_an_answer_with_the_reason_in_a_line(
    version: Version, training: dict[str, Any], named: str
) -> None:
    answer = ask(version, make_task(version, **training))

    assert answer.status == "failed"
    assert named in answer.reason
    assert len(answer.reason.splitlines()) == 1
    assert not answer.step_times_ms


@pytest.mark.slow
def test_code_that_is_imported_from_elsewhere_is_refused(version: Version, tmp_path: Path) -> None:
    elsewhere = replace(version, folder=tmp_path)

    for task in (make_task(elsewhere), of_study(elsewhere)):
        answer = ask(version, task)

        assert answer.status == "failed"
        assert str(version.folder) in answer.reason


@pytest.mark.slow
def test_a_module_that_the_model_imports_from_the_other_side_is_refused(
    version: Version, tmp_path: Path
) -> None:
    (tmp_path / "of_model.py").write_text("")
    (version.folder / "linked.py").symlink_to(tmp_path / "of_model.py")
    for module in ("linked", "of_model"):
        (version.folder / f"with_{module}.py").write_text(
            f"import sys\nsys.path.append({str(tmp_path)!r})\nimport {module}\nfrom {MODEL} "
            "import build\n"
        )

    linked, of_other = (
        ask(
            version,
            msgspec.structs.replace(
                make_task(version, build=f"with_{module}:build"), here=str(tmp_path)
            ),
        )
        for module in ("linked", "of_model")
    )

    assert (linked.status, linked.reason) == ("ok", "")
    assert of_other.status == "failed"
    assert str(tmp_path / "of_model.py") in of_other.reason


@pytest.mark.slow
def test_a_message_of_another_version_is_refused(version: Version) -> None:
    newer = b'{"configuration": "a", "index": "first"}'

    answers = [ask(version, task) for task in (newer, b"no JSON")]

    assert [answer.status for answer in answers] == ["failed"] * 2


def wait_for(condition: "psutil.Process | Path") -> None:
    deadline = time.monotonic() + 60
    while (
        condition.is_running() if isinstance(condition, psutil.Process) else not condition.exists()
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_closed_input_ends_the_process_and_its_training(tmp_path: Path) -> None:
    version = make_side(tmp_path / "side")
    with agent_of(version) as agent:
        assert agent.stdin
        agent.stdin.write(
            msgspec.json.encode(make_task(version, build=f"{MODEL}:build_for_long")) + b"\n"
        )
        agent.stdin.flush()
        wait_for(version.folder / "process")
        below = psutil.Process(agent.pid).children(recursive=True)
        training = int((version.folder / "process").read_text())

        agent.stdin.close()
        status = agent.wait(60)
        for each in below:
            wait_for(each)

    assert status == 0
    assert training == agent.pid
