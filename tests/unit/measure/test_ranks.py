"""Trainings that several processes share; they really start, train, disagree and die, with gloo on
the CPU.
"""

import contextlib
import gzip
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.distributed.tensor import DTensor

from gpu_report.measure.batches import ShuffledSampler
from gpu_report.measure.hosts import Hosts
from gpu_report.measure.processes import MeasurementInterruptedError
from gpu_report.measure.threads import training_threads
from gpu_report.measure.training import _add_gradients
from gpu_report.measure.variant_run import measure_variant
from gpu_report.measure.world import World, join, leave
from gpu_report.records.record import RECORD_FILE, Record
from gpu_report.workloads.protocol import TrainingWorkload, WorkloadError, with_defaults
from tests.unit.measure.tiny_workloads import GPT2InDoublePrecision, InDoublePrecision, Tiny
from tests.unit.measure.trainings import build, measurement, tiny, train_quietly

CPU = torch.device("cpu")
IN_DOUBLE_PRECISION: dict[str, Callable[[], TrainingWorkload]] = {
    "tiny": lambda: with_defaults(InDoublePrecision(size="default", seed=0)),
    "gpt2": lambda: with_defaults(
        GPT2InDoublePrecision(size="tiny", seed=0, train_samples=8, test_samples=1)
    ),
}


def measured(
    class_name: str, folder: Path, *, repetitions: int = 1, patience_s: float = 100, **fields: Any
) -> Record:
    hosts = fields.pop("hosts", Hosts())
    values = {"strategy": "ddp", "devices": 2, "steps_per_epoch": 4, **fields}
    return measure_variant(
        measurement(class_name, repetitions=repetitions, profile_steps=2, **values),
        machine="here",
        trace_folder=folder / "trace",
        rich_trace_folder=folder / "rich_trace",
        patience_s=patience_s,
        hosts=hosts,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def record(folder: Path) -> Record:
    return measured("Tiny", folder, repetitions=2)


def test_an_epoch_is_that_of_the_slowest_rank_with_the_samples_of_all(
    record: Record, folder: Path
) -> None:
    """Parameters are equal bit by bit in all ranks, and in turn with every repetition a plain
    process trains on the share of one rank.
    """
    assert record.status == "ok", record.reason
    RECORD_FILE.write(record, folder / "record.json")
    assert RECORD_FILE.read(folder / "record.json") == record
    for repetition in record.repetitions:
        ranks, base = repetition.ranks, repetition.base
        for epoch, *of_ranks in zip(
            repetition.all_epochs, *(rank.epochs for rank in ranks), strict=True
        ):
            assert epoch.wall_time_s == max(each.wall_time_s for each in of_ranks)
            assert epoch.samples == sum(each.samples for each in of_ranks) == 16
        assert len({rank.parameters_sha256 for rank in ranks}) == 1
        assert base is not None
        assert base.threads == training_threads("cpu", sharing=2)
        assert {epoch.samples for epoch in base.epochs} == {4 * 4 // 2}


def test_several_ranks_learn_what_one_process_learns_of_the_same_batches(record: Record) -> None:
    for seed, repetition in enumerate(record.repetitions):
        alone = build(Tiny(size="default", seed=seed), seed=seed, steps_per_epoch=4)
        for ours, expected in zip(repetition.epochs, train_quietly(alone, epochs=3), strict=True):
            assert ours.train_losses == pytest.approx(expected.train_losses, rel=1e-5)
        assert ours.quality == expected.quality


def test_each_rank_leaves_a_trace_that_names_its_rank(record: Record, folder: Path) -> None:
    assert record.profile is not None
    names = [record.profile.trace_file, *(each.trace_file for each in record.profile.other_ranks)]
    assert sorted(path.name for path in (folder / "trace").iterdir()) == names
    for rank, name in enumerate(names):
        found = json.loads(gzip.decompress((folder / "trace" / name).read_bytes()))[
            "distributedInfo"
        ]
        assert (found["rank"], found["world_size"]) == (rank, 2)


def test_a_run_whose_ranks_trained_different_models_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="rank 1 differ"):
        measured("BypassesTheWrapper", tmp_path)


@pytest.mark.slow
def test_a_plain_process_that_fails_in_turn_costs_the_comparison_and_is_in_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = measured("FailsAlone", tmp_path)
    assert (alone.status, [each.base for each in alone.repetitions]) == ("ok", [None])
    assert "no such number" in capsys.readouterr().err


@pytest.mark.parametrize("strategy", [pytest.param("ddp", marks=pytest.mark.slow), "fsdp"])
def test_the_optimizer_of_a_rank_keeps_the_types_of_numbers_that_a_plain_one_keeps(
    strategy: str, tmp_path: Path
) -> None:
    (shared,) = measured("TinyWithAdam", tmp_path, strategy=strategy).repetitions
    assert shared.optimizer_dtypes == ["float32"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", ["nocomm", "bucket1+bucketview+staticgraph", "bucket100+unused+localbuffers"]
)
def test_options_of_ddp_change_nothing_of_what_is_learned_unless_nothing_is_sent(
    record: Record, options: str, tmp_path: Path
) -> None:
    other = measured("Tiny", tmp_path, options=options)
    assert other.status == "ok", other.reason
    (ours,), (theirs, _) = other.repetitions, record.repetitions
    own_parameters = len({rank.parameters_sha256 for rank in ours.ranks})
    if options == "nocomm":
        assert own_parameters == 2
    else:
        assert own_parameters == 1
        assert ours.epochs[-1].train_losses == theirs.epochs[-1].train_losses


@pytest.mark.parametrize(
    ("where", "what", "status", "said"),
    [
        ("model", "MemoryError", "oom", "rank 1.*no room"),
        ("loss1", "ArithmeticError", "failed", "rank 1.*no such number"),
        ("loss2", "SIGABRT", "failed", "rank 1 was ended by SIGABRT"),
        *(
            pytest.param(where, what, status, said, marks=pytest.mark.slow)
            for where, what, status, said in (
                ("optimizer", "ArithmeticError", "failed", "rank 1.*no such number"),
                ("train_data", "MemoryError", "oom", "rank 1.*no room"),
                ("quality", "ArithmeticError", "failed", "rank 1.*no such number"),
                ("loss2", "be deaf", "failed", ".*rank 1 did not answer"),
            )
        ),
    ],
)
def test_a_rank_that_goes_wrong_is_named_before_those_that_lose_it(
    where: str, what: str, status: str, said: str, tmp_path: Path
) -> None:
    settings, patience_s = {"where": where, "what": what}, 3 if what == "be deaf" else 100
    record = measured("GoesWrongInOneRank", tmp_path, settings=settings, patience_s=patience_s)
    assert (record.status, record.repetitions) == (status, [])
    assert re.match(f"repetition 1: {said}", record.reason), record.reason


@pytest.mark.parametrize(
    ("where", "what", "said"),
    [
        ("backward", "SIGKILL", "repetition 1 .*rank 1 was ended by SIGKILL"),
        ("loss2", "SIGSTOP", r"(rank 1|process [0-9]+) was stopped"),
        *(
            pytest.param(where, what, f"rank 1 was ended by {what}", marks=pytest.mark.slow)
            for where, what in (
                ("model", "SIGKILL"),
                ("train_data", "SIGKILL"),
                ("quality", "SIGKILL"),
                ("gather_ranks", "SIGKILL"),
                ("loss2", "SIGTERM"),
                ("loss2", "SIGINT"),
            )
        ),
        pytest.param("loss2", "stop agent", "process [0-9]+ was stopped", marks=pytest.mark.slow),
    ],
)
def test_a_rank_ended_or_stopped_from_outside_is_no_result_wherever_it_is(
    where: str, what: str, said: str, tmp_path: Path
) -> None:
    settings, patience_s = {"where": where, "what": what}, 3 if "stop" in what.lower() else 100
    with pytest.raises(MeasurementInterruptedError, match=said):
        measured("GoesWrongInOneRank", tmp_path, patience_s=patience_s, settings=settings)


@pytest.mark.slow
def test_the_first_rank_ended_from_outside_after_its_result_is_no_result(tmp_path: Path) -> None:
    settings = {"where": "leave", "what": "SIGKILL", "rank": 0}
    with pytest.raises(MeasurementInterruptedError, match="rank 0 was ended by SIGKILL"):
        measured("GoesWrongInOneRank", tmp_path, settings=settings)


@pytest.mark.slow
def test_a_rank_that_aborts_in_the_profiled_run_costs_no_repetition(tmp_path: Path) -> None:
    record = measured(
        "GoesWrongInOneRank", tmp_path, settings={"where": "move_whole_trace", "what": "SIGABRT"}
    )
    assert (record.status, record.reason) == ("failed", "profiled run: rank 1 was ended by SIGABRT")
    assert len(record.repetitions) == 1
    assert not any((tmp_path / "trace").iterdir())


_IGNORING = """
import signal
import sys
from pathlib import Path
from tests.unit.measure.test_ranks import measured
if __name__ == "__main__":
    for name in ("SIGHUP", "SIGINT"):
        signal.signal(signal.Signals[name], signal.SIG_IGN)
    for number, fields in enumerate(({}, {"strategy": "single", "devices": 1, "workers": 1})):
        folder = Path(sys.argv[1]) / str(number)
        record = measured("SignalsItsFamily", folder, settings={"note": "SIGHUP SIGINT"}, **fields)
        print(record.status, record.reason)
"""


@pytest.mark.slow
def test_signals_that_the_command_ignores_end_nothing_that_it_starts(tmp_path: Path) -> None:
    (script := tmp_path / "ignoring.py").write_text(_IGNORING, "utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(script), str(tmp_path)]
    measuring = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    assert measuring.stdout.split() == ["ok", "ok"]


_MEASURE = """
import sys
from pathlib import Path
from tests.unit.measure.test_ranks import measured
measured("GoesWrongInOneRank", Path(sys.argv[1]), settings={"where": "loss2", "what": "SIGCONT"})
"""


@pytest.mark.slow
def test_no_rank_outlives_the_process_that_measures(tmp_path: Path) -> None:
    measuring = subprocess.Popen(
        [sys.executable, "-c", _MEASURE, str(tmp_path)], env={**os.environ}
    )
    processes: list[psutil.Process] = []
    try:
        processes = _wait_for_ranks(measuring.pid)
        measuring.kill()
        measuring.wait()
        _, alive = psutil.wait_procs(processes, timeout=20)
        assert not alive
    finally:
        for each in processes:
            with contextlib.suppress(psutil.Error):
                each.kill()
        measuring.kill()


def _wait_for_ranks(pid: int) -> list[psutil.Process]:
    """The processes below this one, once two of them have one parent: the agent that started both
    ranks.
    """
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        below = psutil.Process(pid).children(recursive=True)
        parents = Counter(each.ppid() for each in below if each.is_running())
        if any(count == 2 for parent, count in parents.items() if parent != pid):
            return below
        time.sleep(0.05)
    raise AssertionError("no ranks were started")


@pytest.mark.parametrize("ranks", [2, 4])
def test_together_the_ranks_see_each_sample_once_per_epoch_and_in_another_order_in_the_next(
    ranks: int,
) -> None:
    worlds = [World(rank=rank, size=ranks, is_launched=True) for rank in range(ranks)]
    samplers = [
        ShuffledSampler(samples=12, samples_per_epoch=12, seed=3, world=world) for world in worlds
    ]
    epochs = [[list(sampler) for sampler in samplers] for _ in range(2)]
    for epoch in epochs:
        assert sorted(chain.from_iterable(epoch)) == list(range(12))
        assert {len(share) for share in epoch} == {12 // ranks}
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_gradients_of_several_ranks_are_those_of_one_process_with_all_their_samples(
    ranks: int, tmp_path: Path
) -> None:
    found = carried_out_by(ranks, _gradients_as_rank, tmp_path)
    expected = {each: _gradients(each, "single", 1, 1, World()) for each in IN_DOUBLE_PRECISION}
    for rank, by_case in found.items():
        for case, gradients in by_case.items():
            for ours, theirs in zip(gradients, expected[case[0]], strict=True):
                assert torch.allclose(ours, theirs, rtol=1e-6, atol=1e-12), (rank, case)


def carried_out_by(ranks: int, function: Callable[[int], Any], folder: Path) -> dict[int, Any]:
    """By rank, what this returns in each of several processes, which all know their number."""
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=ranks,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=0,
        start_method="forkserver",
        logs_specs=DefaultLogsSpecs(log_dir=str(folder)),
    )
    found: dict[int, Any] = elastic_launch(config, function)(ranks)
    return found


def _gradients_as_rank(ranks: int) -> dict[tuple[str, str, int], list[torch.Tensor]]:
    """By workload, strategy and number of parts in which gradients are accumulated."""
    world = join(CPU, expected=ranks, patience_s=60)
    try:
        return {
            (name, strategy, parts): _gradients(name, strategy, ranks, parts, world)
            for name in IN_DOUBLE_PRECISION
            for strategy in ("ddp", "fsdp")
            for parts in (1, 2)
        }
    finally:
        leave(world)


def _gradients(
    name: str, strategy: str, ranks: int, parts: int, world: World
) -> list[torch.Tensor]:
    """Of the first batch, all parts of it, in double precision."""
    fields: dict[str, Any] = {
        "strategy": strategy,
        "devices": ranks,
        "accumulation": parts,
        "batch_size": 8,
    }
    training = build(IN_DOUBLE_PRECISION[name](), steps_per_epoch=1, world=world, **fields)
    inputs, target = next(iter(training.train_loader))
    _add_gradients(training, inputs, target)
    gradients = [each.grad for each in training.model.parameters() if each.grad is not None]
    return [each.full_tensor() if isinstance(each, DTensor) else each for each in gradients]


def test_a_batch_that_ranks_cannot_share_is_refused() -> None:
    world = World(size=2, is_launched=True)
    with pytest.raises(WorkloadError, match="not equally shared"):
        build(tiny(), batch_size=8, strategy="ddp", devices=2, world=world)
