"""One call says what limits a training, within the time that is given, and leaves no trace of
itself.
"""

import _thread
import gzip
import json
import math
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from html import unescape
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.profiler import record_function
from torch.utils.data import DataLoader, Dataset

import gpu_report
from gpu_report import profile
from gpu_report.cli import main
from gpu_report.errors import FileWriteError, ProfileError
from gpu_report.measure.run import profiler_warm_up_steps
from gpu_report.printing.number_format import duration
from gpu_report.records import record
from gpu_report.records.record import Load
from gpu_report.traces.tables import TRACE_TABLES
from gpu_report.user_training import blocks, run
from gpu_report.user_training import profile as profile_module
from gpu_report.user_training.profile import Profile, analysed
from gpu_report.workloads.protocol import Phase

X, Y = torch.randn(8, 4), torch.randint(0, 3, (8,))
IDLE = Load(foreign_cpu_share=0.0, steal_share=None)


def judged(found: Profile, *, load: Load = IDLE, **other: Any) -> Profile:
    """As it is on a machine where nothing else runs, which that of the tests is not."""
    on_cpu = {"cpu_share": 1.0, "other_threads_share": 0.0}
    measured = replace(found.measured, load=load, **{**on_cpu, **other})
    return analysed(measured, too_few=("", ""))


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of a second is enough here, and so are profiled steps that other tests beside this
    one have slowed.
    """
    monkeypatch.setattr(record, "MOST_SLOWED", 100.0)
    monkeypatch.setattr(blocks, "_BLOCK_S", 0.01)
    monkeypatch.setattr(run, "RULES", replace(blocks.RULES, timed_seconds=0.1))


class Classifier(nn.Module):
    """Takes its time where a test wants: in one operation, or in Python between two."""

    def __init__(self, *, in_operation: bool = False, in_python_s: float = 0.0) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.matrix = torch.randn(1000, 1000) if in_operation else None
        self.in_python_s = in_python_s

    def forward(self, inputs: Tensor) -> Tensor:
        time.sleep(self.in_python_s)
        if self.matrix is not None:
            self.matrix @ self.matrix
        outputs: Tensor = self.layer(inputs)
        return outputs


class SlowSamples(Dataset[tuple[Tensor, Tensor]]):
    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        time.sleep(0.008)
        return X[index % 8], Y[index % 8]


def slow_batches() -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        time.sleep(0.06)
        yield X, Y


@pytest.mark.parametrize(
    "loader",
    [DataLoader(SlowSamples(), batch_size=8), slow_batches()],
    ids=["DataLoader", "generator"],
)
def test_a_slow_loader_is_found_and_named_first(loader: Any) -> None:
    found = judged(profile(Classifier(), loader=loader, loss=cross_entropy))

    assert found.limit == "waiting for data"
    assert found.suggestions[0].rule == "data loader"
    assert found.suggestions[0].gain > 2
    assert found.data_wait.value > 0.5


def test_a_step_of_ones_own_has_the_phases_that_autograd_and_the_optimizer_show() -> None:
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        cross_entropy(model(X), Y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    found = judged(profile(step=step))

    assert {"forward", "backward", "optimizer"} <= {*found.tables["phases"]["phase"]}


def test_advice_about_the_loader_knows_its_workers_and_the_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(profile_module, "core_count", lambda: 2)
    found = profile(
        Classifier(), loader=DataLoader(SlowSamples(), batch_size=8), loss=cross_entropy
    )

    def remedy(**loader: Any) -> str:
        return judged(found, **loader).suggestions[0].remedy

    assert "it has 0 of at most 2" in remedy(loader_workers=0, keeps_workers=True)
    assert "persistent_workers" in remedy(loader_workers=1, keeps_workers=False)
    assert "more worker processes" not in remedy(loader_workers=2)


def test_a_slow_operation_slow_python_and_waiting_are_told_apart() -> None:
    elsewhere = profile(Classifier(in_python_s=0.1), (X, Y), loss=cross_entropy)

    assert judged(slow_operation()).limit == "kernels"
    assert judged(elsewhere, cpu_share=0.9).limit == "Python between two operations"
    waiting = judged(elsewhere, cpu_share=0.2)
    assert waiting.limit == "waiting without the CPU (sleep, I/O or a lock)"
    assert [each.rule for each in waiting.suggestions] == ["waiting"]


def test_the_thread_that_trains_and_those_beside_it_are_told_apart() -> None:
    ends = Event()

    def spin() -> None:
        while not ends.is_set():
            pass

    alone = profile(step=lambda: time.sleep(0.002)).measured
    beside = Thread(target=spin)
    beside.start()
    crowded = profile(step=lambda: time.sleep(0.002))
    ends.set()
    beside.join()

    assert alone.cpu_share < 0.9
    assert alone.other_threads_share < 0.02 < crowded.measured.other_threads_share
    busy = analysed(replace(crowded.measured, other_threads_share=0.5), too_few=("", ""))
    assert "other threads" in [each.rule for each in busy.suggestions]


def test_a_thread_that_python_did_not_begin_works_for_the_step() -> None:
    """Autograd's thread of a GPU becomes known to Python where a hook of backward asks for it."""
    is_known, ends = Event(), Event()

    def spin() -> None:
        threading.current_thread()
        is_known.set()
        while not ends.is_set():
            pass

    _thread.start_new_thread(spin, ())
    is_known.wait()
    found = profile(step=lambda: time.sleep(0.002))
    ends.set()

    assert found.measured.other_threads_share < 0.02


def test_anomaly_mode_is_named_and_no_gain_is_promised() -> None:
    with torch.autograd.set_detect_anomaly(True):
        found = judged(profile(Classifier(), (X, Y), loss=cross_entropy))

    assert found.suggestions[0].rule == "anomaly mode"
    assert "was not measured" in " ".join(found.summary().split())


def test_a_step_of_ones_own_is_timed_in_steps_per_second_unless_its_samples_are_given() -> None:
    found, counted = (profile(step=lambda: time.sleep(0.01), samples=each) for each in (None, 7))

    assert found.measured.samples is None
    assert "steps/s" in found.summary()
    assert counted.measured.samples == 7
    assert "samples/s" in counted.summary()


def test_the_card_is_printed_once_and_short(capsys: pytest.CaptureFixture[str]) -> None:
    found = profile(Classifier(in_python_s=0.03), loader=slow_batches(), loss=cross_entropy)

    printed = capsys.readouterr()
    assert printed.out == found.summary() + "\n"
    assert printed.err == ""
    lines = found.summary().splitlines()
    assert len(lines) <= 10
    assert max(map(len, lines)) <= 100
    assert [line[:9].strip() for line in lines if not line.startswith(" ")] == [
        "limit",
        "why",
        "next",
        "memory",
    ]


@cache
def slow_operation() -> Profile:
    """The profile of a slow operation, which several tests read."""
    return profile(Classifier(in_operation=True), (X, Y), loss=cross_entropy)


def test_tables_and_trace_are_in_the_answer_and_no_file_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    slow_operation.cache_clear()

    found = slow_operation()

    assert list(tmp_path.iterdir()) == []
    assert [*found.tables] == [table.name for table in TRACE_TABLES]
    assert "aten::mm" in set(found.tables["operations"]["name"])
    assert json.loads(gzip.decompress(found.trace))["gpu_report_run"] == "gpu_report.profile"


def test_the_numbers_of_the_card_and_its_page_can_be_written(tmp_path: Path) -> None:
    found = slow_operation()

    found.to_json(tmp_path / "found.json")
    found.to_html(tmp_path / "found.html")

    written = json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert written["step_time_ms"]["value"] == found.step_time_ms.value
    assert written["measured"]["samples"] == 8
    assert written["data_wait"]["value"] is None
    text = unescape((tmp_path / "found.html").read_text("utf-8"))
    assert found.summary() in text
    assert found.hardware in text
    assert duration(found.measured.block_times_ms[0] / 1e3, unit="ms").plain(unit=False) in text
    slowest = {"aten::mm", *found.tables["operations"].nlargest(3, "self_ms")["name"]}
    assert not [name for name in slowest if name not in text]
    assert len(text) < 2_000_000
    with pytest.raises(FileWriteError, match=r"found\.html"):
        found.to_html(tmp_path / "found.html" / "found.html")


def test_a_step_that_is_too_slow_for_the_time_given_is_insufficient_data_and_says_what_to_do() -> (
    None
):
    began = time.monotonic()

    found = profile(step=lambda: time.sleep(0.2), seconds=1)

    assert time.monotonic() - began < 3
    said = re.fullmatch(
        r"insufficient data: 2 steps in (\d+) ms, and the steps still needed .* 1 s", found.problem
    )
    assert said
    assert 400 <= int(said[1]) < 1000
    assert re.search(r"call again with \d+ seconds", found.summary())
    assert found.limit == ""
    assert all(table.empty for table in found.tables.values())


@pytest.mark.parametrize(
    ("given", "raised", "message"),
    [
        (
            LookupError("no such class\nline"),
            ProfileError,
            "^loss: at step 3 it raised LookupError",
        ),
        (KeyboardInterrupt(), KeyboardInterrupt, ""),
        (float("nan"), ProfileError, "^loss: it was nan at step 3; expected a finite number"),
    ],
)
def test_a_step_that_goes_wrong_is_named_with_its_cause_and_everything_is_restored(
    given: Any, raised: type[BaseException], message: str
) -> None:
    model, calls = Classifier(), count(1)

    def loss(output: Tensor, target: Tensor) -> Tensor:
        if next(calls) == 3:
            if isinstance(given, BaseException):
                raise given
            spoiled: Tensor = cross_entropy(output, target) * given
            return spoiled
        return cross_entropy(output, target)

    before, numbers = model.layer.weight.detach().clone(), torch.get_rng_state()

    with pytest.raises(raised, match=message or None) as found:
        profile(model, loader=[(X, Y)] * 5, loss=loss)

    if isinstance(given, LookupError):
        assert found.value.__cause__ is given
    assert torch.equal(model.layer.weight, before)
    assert torch.equal(torch.get_rng_state(), numbers)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"batch": (X.numpy(), Y)}, "^model: at step 1 it raised TypeError"),
        ({"loss": lambda output: output.mean()}, "^loss: at step 1 it raised TypeError"),
        ({"loss": lambda output, _: output.exp().mul_(2).sum()}, "^backward: at step 1 it raised"),
        ({"batch": (X[:0], Y[:0])}, "^batch: it has no samples"),
        ({"optimizer": torch.optim.LBFGS}, "^optimizer: at step 1 it raised TypeError: .*closure"),
    ],
)
def test_what_a_step_fails_in_is_named(given: dict[str, Any], named: str) -> None:
    model = Classifier()
    if "optimizer" in given:
        given = {"optimizer": given["optimizer"](model.parameters())}

    with pytest.raises(ProfileError, match=named):
        profile(model, **{"batch": (X, Y), "loss": cross_entropy, **given})


def test_a_device_that_fails_is_named_and_not_the_part_that_happens_to_notice_it() -> None:
    def failing_loss(*_: Tensor) -> Tensor:
        raise torch.AcceleratorError("CUDA error: device-side assert triggered\nsecond line")

    with pytest.raises(
        ProfileError,
        match=r"^cpu: AcceleratorError: CUDA error: .*triggered; this process cannot use",
    ):
        profile(Classifier(), (X, Y), loss=failing_loss)


def test_a_profile_inside_of_another_is_refused_and_leaves_that_one_alone() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as outer:
        with pytest.raises(ProfileError, match=r"^profile: torch.profiler is running"):
            profile(Classifier(), (X, Y), loss=cross_entropy)
        X.exp()

    assert "aten::exp" in [event.key for event in outer.key_averages()]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"samples": 8}, "^model, step: neither was given"),
        ({"model": Classifier(), "step": print}, "^model, step: both were given"),
        ({"step": 3}, "^step: it is a int; expected a callable"),
        ({"step": print, "loader": []}, "^loader: given beside step="),
        ({"step": print, "samples": 0}, "^samples: it is .*; expected a whole number of 1 or more"),
        (
            {"step": print, "samples": 2.5},
            "^samples: it is .*; expected a whole number of 1 or more",
        ),
        (
            {"step": print, "samples": True},
            "^samples: it is .*; expected a whole number of 1 or more",
        ),
        (
            {"step": print, "samples": "8"},
            "^samples: it is .*; expected a whole number of 1 or more",
        ),
        (
            {"step": print, "samples": len},
            "^samples: it is .*; expected a whole number of 1 or more",
        ),
        ({"step": print, "seconds": 0}, "^seconds: it is 0; expected a positive number"),
        ({"step": print, "seconds": "5"}, "^seconds: it is '5'; expected a positive number"),
        ({"step": print, "device": None}, "^device: it is None; expected auto or PyTorch's name"),
        ({"step": print, "epochs": 1}, "^epochs: given without the name of a built-in workload"),
    ],
)
def test_a_call_that_cannot_be_meant_is_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        profile(**given)


def test_the_package_itself_imports_neither_torch_nor_pandas() -> None:
    code = "import gpu_report, sys; sys.exit(bool({'torch', 'pandas'} & set(sys.modules)))"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert not hasattr(gpu_report, "profil")


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a training as a user writes it, and modules that go wrong."""
    sources = {
        "my_training": "import torch\n"
        "def build_model(): return torch.nn.Linear(4, 3)\n"
        "def make_batch(): return torch.zeros(8, 4), torch.zeros(8, dtype=torch.long)\n"
        "loss = torch.nn.functional.cross_entropy\n",
        "broken": "def build_model(): raise LookupError('no weights')\n",
        "worse": "1 / 0\n",
        "ending": "import sys\nsys.exit(0)\n",
        "lacking": "import no_such_package\n",
    }
    for name, source in sources.items():
        (tmp_path / f"{name}.py").write_text(source, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


COMMAND = "my_training:build_model --batch my_training:make_batch --device cpu"


@pytest.mark.usefixtures("in_folder")
def test_the_command_builds_what_is_named_and_writes_what_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = f"profile {COMMAND} --loss my_training:loss --json found.json --html found.html"
    assert main(asked.split()) == 0

    assert capsys.readouterr().out.startswith("limit ")
    assert json.loads(Path("found.json").read_text("utf-8"))["measured"]["device"] == "cpu"
    assert Path("found.html").read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.usefixtures("in_folder")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (f"{COMMAND} --loss my_training:lost", "my_training:lost: there is no such function"),
        ("missing:model --batch my_training:make_batch", "run this in its folder"),
        (
            "missing:model --batch my_training:make_batch",
            "missing:model: importing 'missing' raised",
        ),
        ("broken:build_model --batch broken:build_model", "it raised LookupError: no weights"),
        ("worse:a --batch worse:b", "importing 'worse' raised ZeroDivisionError"),
        ("ending:a --batch ending:b", "importing 'ending' raised SystemExit: 0"),
        ("lacking:a --batch lacking:b", "install no_such_package"),
        ("my_training:build_model", "--batch: none was given"),
        ("unet --batch-size 4 --size 1px", "size: unet has no size '1px'"),
        ("unet", "--batch-size: none was given; expected the samples of a step of unet"),
        ("my_training.py", "MODEL: 'my_training.py' is unknown; use one of unet"),
    ],
)
def test_what_the_command_cannot_profile_is_named(
    arguments: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", *arguments.split()]) == 2

    assert said in capsys.readouterr().err


class Remembering(Classifier):
    """Keeps every output, as a loop does that appends losses with their graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs: list[Tensor] = []

    def forward(self, inputs: Tensor) -> Tensor:
        kept = torch.empty(
            2**23 + 1
        )  # over 32 MiB, which malloc never takes from what earlier tests have freed
        kept[: 2**19] = 1
        self.outputs.append(kept)
        return super().forward(inputs)


def test_memory_that_grows_is_the_first_thing_to_mend() -> None:
    growing = judged(profile(Remembering(), (X, Y), loss=cross_entropy)).suggestions

    assert growing[0].rule == "growing memory"


def test_memory_that_grows_ever_more_slowly_is_warm_up() -> None:
    def suggestions(in_use_mib: list[float]) -> Any:
        memory: dict[str, Any] = {
            "memory_in_use_mib": in_use_mib,
            "block_steps": 2,
            "memory_free_mib": 20_000.0,
        }
        return judged(slow_operation(), **memory).suggestions

    leaking = suggestions([500.0 + 0.5 * block for block in range(10)])
    warming_up = suggestions([504.0 - 4 * 0.4**block for block in range(10)])

    assert "5.00 MiB in 20 steps" in leaking[0].remedy
    assert not [each for each in warming_up if each.rule == "growing memory"]


@pytest.mark.parametrize(
    ("foreign", "steal", "has_limit"),
    [(0.02, None, True), (0.42, None, False), (None, 0.42, False)],
)
def test_no_limit_is_named_where_the_load_of_others_could_explain_it(
    foreign: float | None, steal: float | None, *, has_limit: bool
) -> None:
    load = Load(foreign_cpu_share=foreign, steal_share=steal)
    found = judged(slow_operation(), load=load)

    assert bool(found.limit) == has_limit
    assert ("others used 42 % of the CPU" in " ".join(found.summary().split())) != has_limit


def test_the_load_of_others_leaves_the_limit_of_a_step_that_sleeps() -> None:
    load = Load(foreign_cpu_share=0.9, steal_share=None)

    sleeping = judged(profile(step=partial(time.sleep, 0.002)), load=load, cpu_share=0.01)

    assert sleeping.limit.startswith("waiting without the CPU")
    assert not sleeping.problem


def test_where_no_clock_tells_a_sleep_from_a_turn_on_the_cpu_their_load_hides_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(profile_module, "READY_TIMES", Path("/no such file"))
    load = Load(foreign_cpu_share=0.9, steal_share=None)

    sleeping = judged(profile(step=partial(time.sleep, 0.002)), load=load, cpu_share=0.01)

    assert sleeping.problem.startswith("not resolved: others used 90 % of the CPU time")


def test_the_interval_of_a_rate_holds_what_differs_in_samples_and_in_time() -> None:
    found = slow_operation()

    def rate(times_ms: list[float], samples: list[float]) -> Any:
        blocks: dict[str, Any] = {"block_times_ms": times_ms, "block_samples": samples}
        return replace(found, measured=replace(found.measured, **blocks)).throughput_per_s

    unequal = rate([10.0] * 4, [8.0, 64.0, 16.0, 40.0])
    alike = rate([1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0])
    outlier = rate([1.0, 1.0, 10.0], [8.0, 8.0, 8.0])

    assert unequal.value == pytest.approx(3200)
    assert unequal.high - unequal.low > 1000
    assert (alike.low, alike.high) == pytest.approx((10_000, 10_000))
    assert outlier.low == 0
    assert math.isfinite(outlier.high)


def test_blocks_that_differ_count_by_their_time() -> None:
    times: dict[str, Any] = {
        "block_times_ms": [2.0, 2.0, 2.0, 22.0],
        "data_wait_shares": [0.0, 0.0, 0.0, 0.7],
        "block_samples": [],
        "samples": 14.0,
    }
    found = replace(slow_operation(), measured=replace(slow_operation().measured, **times))

    assert found.step_time_ms.value == pytest.approx(7.0)
    assert found.throughput_per_s.value == pytest.approx(2000.0)
    assert found.data_wait.value == pytest.approx(0.55)


def test_on_the_cpu_many_short_operations_are_named_and_a_long_one_is_not() -> None:
    layers = nn.Sequential(*(nn.Linear(4, 4) for _ in range(30)))

    def short() -> list[str]:
        found = judged(profile(layers, (X, X), loss=nn.functional.mse_loss))
        return [each.rule for each in found.suggestions]

    # A step that other tests interrupt has long stretches of Python.
    assert any(short() == ["short operations"] for _ in range(5))
    assert not judged(slow_operation()).suggestions


@pytest.mark.parametrize("second_s", [0.0, 0.05])
def test_steps_that_get_slow_after_some_end_with_the_time(second_s: float) -> None:
    calls = count(1)

    def step() -> None:
        call = next(calls)
        time.sleep(second_s if call == 2 else 0.1 if call > 17 else 0)

    profile(step=step, seconds=3)

    assert next(calls) < 57  # each of those after the 17th takes 0.1 s at least


def test_python_in_one_place_is_named_however_many_operations_are_called() -> None:
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(30)))

    def step_of_many() -> None:
        model(X).sum().backward()
        time.sleep(0.01)

    for step in (step_of_many, lambda: time.sleep(0.02)):
        found = judged(profile(step=step))
        assert [each.rule for each in found.suggestions] == ["Python of the step"]
    assert "at most" not in found.summary()


@pytest.mark.filterwarnings("ignore:`torch.jit.script:FutureWarning")
def test_a_scripted_model_is_refused_before_it_trains() -> None:
    model = torch.jit.script(nn.Linear(4, 4)).eval()
    weight = model.weight.detach().clone()

    with pytest.raises(ProfileError, match="ScriptModule"):
        profile(model, (X, X), loss=nn.functional.mse_loss)

    assert torch.equal(model.weight, weight)
    assert not model.training


class ProfiledStep:
    """One step of another size, which is slow, is the first that a profile records."""

    loading = None
    part = "step"

    def __init__(self) -> None:
        self.samples = self._profiled = 0

    def take(self, *, phase: Phase) -> float:
        self._profiled += phase is record_function
        is_other = self._profiled == profiler_warm_up_steps(0) + 1
        self.samples += 1 if is_other else 2
        return 0.2 if is_other else 0.001

    def once(self, batch: float, *, phase: Phase) -> None:
        time.sleep(batch)


def test_a_profile_with_a_new_batch_size_is_taken_anew() -> None:
    found = run.StepRun(
        ProfiledStep(),  # type: ignore[arg-type]  # it stands in for one that trains
        device=torch.device("cpu"),
        may_be_on_host=False,
        loader_workers=0,
        deadline_s=time.monotonic() + 60,
    ).measure()

    assert found.trace
    assert max(found.profiled_times_ms) < 200
