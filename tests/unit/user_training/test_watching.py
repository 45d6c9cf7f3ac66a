"""A loop of one's own is watched with one line, and what it raises, prints and returns stays its
own.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import gpu_report
from gpu_report.errors import ProfileError
from gpu_report.records import record
from gpu_report.records.record import Load
from gpu_report.traces.phases import PHASES
from gpu_report.traces.steps import STEPS
from gpu_report.traces.timeline import TIMELINE
from gpu_report.user_training import blocks, profile, step_watch, watching
from gpu_report.user_training.watching import Watched

X = torch.randn(8, 64)
IDLE = Load(foreign_cpu_share=0.0, steal_share=None)


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "MOST_SLOWED", 100.0)
    monkeypatch.setattr(blocks, "_BLOCK_S", 0.004)
    monkeypatch.setattr(blocks, "load_between", lambda *_: IDLE)


class Slow(Dataset[Tensor]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(0.004)
        return X[index]


class Loop:
    """A training as a user writes it, whose steps take so long anywhere that 400 of them are enough
    to be timed.
    """

    def __init__(self) -> None:
        self.model = nn.Linear(64, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def once(self, batch: Tensor = X) -> None:
        time.sleep(0.0005)
        self.model(batch).square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def loaded_batches(steps: int) -> Iterator[Tensor]:
    loader = DataLoader(Slow(), batch_size=8)
    for _ in range(steps):
        yield from loader


def watched_with_slow_data(steps: int, **options: Any) -> Watched:
    loop = Loop()
    with gpu_report.watch(**options) as watched:
        for batch in loaded_batches(steps):
            with gpu_report.step(samples=len(batch)):
                loop.once(batch)
    return watched


def test_a_slow_loader_is_the_limit_and_card_advice_and_tree_have_one_wait(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """That of the timed steps: profiled ones, which the profiler slows in all but the wait, wait
    for a smaller share of their time.
    """
    loop = Loop()
    with gpu_report.watch() as watched:
        for batch in loaded_batches(60):
            with gpu_report.step(samples=len(batch)):
                time.sleep(0.02 if torch.autograd._profiler_enabled() else 0.002)  # type: ignore[attr-defined]
                loop.once(batch)

    found = watched.profile
    assert found is not None
    assert (found.limit, found.suggestions[0].rule) == ("waiting for data", "data loader")
    assert found.data_wait.value > 0.5
    assert found.measured.samples == 8
    assert found.parts["loader"] == pytest.approx(found.data_wait.value)
    assert sum(found.parts.values()) == pytest.approx(1)
    assert found.suggestions[0].at_stake == pytest.approx(found.data_wait.value)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(found.summary() + "\n")
    tree = printed.err.removeprefix(found.summary()).splitlines()
    (marked,) = (line for line in tree if "<-" in line)
    assert "data wait" in marked
    assert f"{100 * found.data_wait.value:.1f} %" in marked


def test_no_limit_is_named_where_others_used_the_cpu_and_no_step_is_profiled_on_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy = Load(foreign_cpu_share=0.9, steal_share=None)
    monkeypatch.setattr(blocks, "load_between", lambda *_: busy)

    found = watched_with_slow_data(40, profile=False).profile

    assert found is not None
    assert not found.limit
    assert not found.trace
    assert "others used 90 % of the CPU" in found.problem


@pytest.mark.parametrize(
    ("parts", "marked"),
    [
        ({"kernels": 0.45, "loader": 0.4, "host": 0.15}, []),
        (
            {"kernels": 0.55, "loader": 0.4, "host": 0.05},
            [("forward", "largest part of the limit")],
        ),
        ({"kernels": 0.35, "loader": 0.6, "host": 0.05}, [("data wait", "limit")]),
        (
            {"kernels": 0.35, "loader": 0.1, "host": 0.55},
            [("forward", "largest part of the limit")],
        ),
    ],
)
def test_the_tree_marks_what_the_verdict_names_and_nothing_where_it_names_nothing(
    parts: dict[str, float], marked: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = watched_with_slow_data(40, profile=False).profile
    assert found is not None
    inside = {"forward": 0.5, "backward": 0.4, "residual": 0.1}
    python = {"forward": 0.3, "backward": 0.0, "residual": 0.1}
    monkeypatch.setattr(watching, "_parts_of_profiled_step", lambda _: (inside, python))

    measured = replace(found.measured, data_wait_shares=[0.4] * len(found.measured.block_times_ms))

    tree = watching._tree(replace(found, parts=parts, measured=measured))

    lines = [line.partition("  <- ") for line in tree if "<-" in line]
    assert [(" ".join(line.split()[1:-4]), mark) for line, _, mark in lines] == marked
    assert all(len(line) <= 100 for line in tree)


def test_forward_backward_optimizer_and_the_wait_make_up_the_step(
    capsys: pytest.CaptureFixture[str],
) -> None:
    loop = Loop()
    with gpu_report.watch() as watched:
        for _ in range(400):
            with gpu_report.step():
                loop.once()

    assert watched.profile is not None
    phases = watched.profile.tables["phases"]
    assert {"forward", "backward", "optimizer"} <= set(phases["phase"])
    shares = [
        float(line.split("%")[0].split()[-1])
        for line in capsys.readouterr().err.splitlines()
        if "─ " in line
    ]
    assert 95 < sum(shares) < 101


def step_of_ten_ms(**changes: Any) -> Any:
    """A profile of one step: 2 ms of waiting for data, 5 ms forward of which Python takes 3, 2 ms
    backward, and 1 ms in no phase.
    """
    operations = {"data": 2.0, "forward": 2.0, "backward": 2.0, "other": 0.5}
    lane = [("data", 0, 2), ("forward", 2, 7), ("backward", 7, 9), ("other", 9, 9.5)]
    rows = {
        STEPS: [{"step": 3, "wall_ms": 10.0, "loader_ms": 2.0}],
        PHASES: [
            {"device": "cpu", "phase": phase, "self_ms": self_ms}
            for phase, self_ms in operations.items()
        ],
        TIMELINE: [
            {
                "step": 3,
                "lane": "phases",
                "device": "cpu",
                "begin_ms": begin_ms,
                "end_ms": end_ms,
                "category": phase,
                "busy_share": 1.0,
            }
            for phase, begin_ms, end_ms in lane
        ],
    }
    fields = {"measured": SimpleNamespace(device="cpu"), "rows": rows, "parts": {"host": 0.6}}
    return SimpleNamespace(**{**fields, **changes})


def test_a_phase_of_the_tree_has_the_python_between_its_operations() -> None:
    parts, python = watching._parts_of_profiled_step(step_of_ten_ms())

    assert parts == pytest.approx(
        {"data": 0.0, "forward": 5 / 8, "backward": 2 / 8, "residual": 1 / 8}
    )
    assert python == pytest.approx(
        {"data": 0.0, "forward": 3 / 8, "backward": 0.0, "residual": 1 / 8}
    )


def test_a_step_without_operations_has_no_phases() -> None:
    found = step_of_ten_ms()
    for row in found.rows[PHASES]:
        row["self_ms"] = found.rows[STEPS][0]["loader_ms"] if row["phase"] == "data" else 0.0

    assert watching._parts_of_profiled_step(found) == ({}, {})


@pytest.mark.parametrize(("limit", "forward"), [("kernels", 1 / 8), ("launch", 5 / 8)])
def test_the_tree_is_of_the_device_unless_the_host_sets_its_pace(
    limit: str, forward: float
) -> None:
    found = step_of_ten_ms(measured=SimpleNamespace(device="cuda:0"), parts={limit: 0.9})
    found.rows[PHASES].append({"device": "cuda", "phase": "forward", "self_ms": 1.0})

    parts, _ = watching._parts_of_profiled_step(found)

    assert parts["forward"] == pytest.approx(forward)
    assert sum(parts.values()) == pytest.approx(1)


def test_too_few_steps_are_insufficient_data_with_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    watched = watched_with_slow_data(3)

    assert watched.profile is not None
    assert watched.profile.problem.startswith("insufficient data: 3 steps")
    assert "train for at least" in capsys.readouterr().err

    with gpu_report.watch() as watched:
        pass
    assert watched.profile is None
    assert "with gpu_report.step():" in capsys.readouterr().err

    with pytest.raises(LookupError), gpu_report.watch(), gpu_report.step():
        raise LookupError
    assert capsys.readouterr().err == (
        "insufficient data: no step ended without an error; "
        "put `with gpu_report.step():` around each training step\n"
    )


def test_a_decorated_function_is_a_step_of_the_watch_that_calls_it() -> None:
    @gpu_report.step(samples=8)
    def train(depth: int = 0) -> int:
        return train(depth - 1) + 1 if depth else 1

    with gpu_report.watch() as watched:
        assert [train(), train(2), train()] == [1, 3, 1]
    with gpu_report.watch() as later:
        train()

    assert watched.profile is not None
    assert (watched.profile.measured.steps, watched.profile.measured.samples) == (3, 8)
    assert later.profile is not None
    assert later.profile.measured.steps == 1


def test_steps_of_a_notebook_without_a_watch_say_once_how_to_get_the_card(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(watching, "_current", [])
    monkeypatch.setattr(sys, "ps1", "In : ", raising=False)

    for _ in range(3):
        with gpu_report.step():
            pass

    assert capsys.readouterr().err.count("with gpu_report.watch():") == 1


def test_an_error_of_the_step_goes_through_and_later_steps_are_measured() -> None:
    loop, error = Loop(), LookupError("mine")
    with gpu_report.watch() as watched:
        for number in range(400):
            if number % 100 == 99:
                with pytest.raises(LookupError) as raised, gpu_report.step():
                    raise error
                assert raised.value is error
            else:
                with gpu_report.step():
                    loop.once()

    assert watched.profile is not None
    assert watched.profile.measured.steps == 396
    assert watched.profile.limit


def test_steps_inside_of_a_step_and_of_another_thread_are_not_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def other() -> None:
        with gpu_report.step():
            pass

    with gpu_report.watch() as watched:
        for _ in range(3):
            with gpu_report.step(), gpu_report.step():
                pass
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    assert watched.profile is not None
    assert watched.profile.measured.steps == 3
    assert "4 steps in other threads or inside a step" in capsys.readouterr().err


def test_a_profiler_of_the_scripts_own_that_waits_by_its_schedule_is_left_alone() -> None:
    loop, traces = Loop(), list[torch.profiler.profile]()
    own_profiler = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(wait=150, warmup=1, active=2, repeat=1),
        on_trace_ready=traces.append,
    )
    with own_profiler as profiler, gpu_report.watch() as watched:
        for _ in range(400):
            with gpu_report.step():
                loop.once()
            profiler.step()

    assert len(traces) == 1
    assert watched.profile is not None
    assert "a torch.profiler.profile of its own" in watched.profile.problem


def test_without_a_temporary_folder_the_loop_runs_to_its_end_and_its_error_goes_through(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_folder(*_arguments: Any, **_options: Any) -> None:
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", no_folder)
    monkeypatch.setattr(step_watch.StepWatch, "finish", no_folder)

    def failing() -> None:
        with gpu_report.watch():
            for batch in loaded_batches(60):
                with gpu_report.step():
                    Loop().once(batch)
            raise LookupError

    with pytest.raises(LookupError):
        failing()
    assert capsys.readouterr().err == "gpu-report: error: no usable temporary directory\n"


@pytest.mark.parametrize(("device", "limit"), [("cpu", "waiting for data"), ("cuda:0", "")])
def test_a_timed_wait_is_the_limit_without_a_trace_on_the_cpu_alone(
    device: str, limit: str
) -> None:
    watched = watched_with_slow_data(40, profile=False)
    assert watched.profile is not None

    found = profile.analysed(
        replace(watched.profile.measured, device=device), too_few=("no step was profiled", "")
    )

    assert found.limit == limit
    assert bool(watching._tree(found)) is bool(limit)


def test_a_number_of_samples_that_cannot_be_meant_is_one_line() -> None:
    with (
        pytest.raises(ProfileError, match=r"^samples: it is 2.5; expected a whole number"),
        gpu_report.step(samples=2.5),  # type: ignore[arg-type]
    ):
        pass


def test_a_later_rank_of_a_process_group_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    with gpu_report.watch():
        with gpu_report.step():
            pass
        monkeypatch.undo()  # as after destroy_process_group

    assert capsys.readouterr().err == ""


def test_scalars_for_tensorboard_are_written_while_the_loop_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setattr(step_watch, "TICK_S", 0.05)
    watched_with_slow_data(30, tensorboard=tmp_path / "logs")

    events = EventAccumulator(str(tmp_path / "logs"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {
        "watch/step_time_ms",
        "watch/data_wait_share",
        "watch/throughput_per_s",
    }
    assert 0 < events.Scalars("watch/data_wait_share")[-1].value <= 1


def test_without_tensorboard_the_block_does_not_begin_and_the_error_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in sys.modules if each.partition(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)

    with (
        pytest.raises(ProfileError, match=r'^tensorboard .*"gpu-report\[report\]"$'),
        gpu_report.watch(tensorboard=tmp_path / "logs"),
    ):
        pytest.fail("the block began")

    assert not (tmp_path / "logs").exists()


SCRIPT = """
import os, sys, gpu_report
for number in range(5):
    with gpu_report.step():
        pass
pid = os.fork()
if not pid:
    with gpu_report.step():
        sys.exit(0)
os.waitpid(pid, 0)
print("printed")
sys.exit(int(sys.argv[1]))
"""


def test_at_the_end_of_a_process_it_prints_one_card_and_the_exit_status_stays() -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, "3"],
        env={**os.environ, "RANK": "1"},  # which some launchers set for every process
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 3
    assert ended.stdout == "printed\n"
    assert ended.stderr.count("insufficient data: 5 steps") == 1
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("ending", "status"), [("raise KeyboardInterrupt", -2), ("raise LookupError('mine')", 1)]
)
@pytest.mark.slow
def test_a_script_that_an_error_ends_has_the_exit_status_that_it_has_alone(
    ending: str, status: int
) -> None:
    code = f"import gpu_report\nfor _ in range(9):\n  with gpu_report.step(): pass\n{ending}"

    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert ended.returncode == status
    assert ended.stderr.splitlines()[0].startswith("Traceback")
    assert "insufficient data: 9 steps" in ended.stderr
