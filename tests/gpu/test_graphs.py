"""A captured training's kernels have the operations of the step before its capture."""

from pathlib import Path
from typing import Final

import pytest
import torch

from gpu_report.measure.variant_run import measure_variant
from gpu_report.study.study import Measurement, Protocol, Workload
from gpu_report.study.variant import Variant
from gpu_report.traces.phases import PHASES
from gpu_report.traces.quality import Gate
from gpu_report.traces.tables import tabulate_trace_of

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="only NVIDIA and AMD GPUs have graphs"
)

CLASSES: Final = {
    "cnn": "gpu_report.workloads.cnn:CNNClassification",
    "lstm": "gpu_report.workloads.lstm:LSTMClassification",
}


@pytest.mark.parametrize(
    ("workload", "size", "options"),
    [
        ("cnn", "small", "resident+graphs"),
        ("cnn", "small", "channelslast+fused+resident+graphs+compile"),
        ("lstm", "default", "graphs"),
    ],
)
def test_kernels_of_a_captured_step_have_operation_and_phase(
    workload: str, size: str, options: str, tmp_path: Path
) -> None:
    asked = Measurement(
        variant=Variant(
            workload=workload, size=size, device="cuda", batch_size=8, epochs=1, options=options
        ),
        workload=Workload(
            name=workload,
            class_path=CLASSES[workload],
            settings={"train_samples": 16, "test_samples": 8},
        ),
        protocol=Protocol(repetitions=1, profile_steps=2, timed_epochs=1, timed_seconds=0),
    )
    light, rich = tmp_path / "trace", tmp_path / "rich"
    record = measure_variant(asked, machine="here", trace_folder=light, rich_trace_folder=rich)
    assert (record.status, record.reason) == ("ok", "")

    gate = Gate(tabulate_trace_of(record, light, rich))

    on_gpu = {row["phase"]: row["self_ms"] for row in gate.rows(PHASES) if row["device"] == "cuda"}
    assert {"forward", "backward", "optimizer"} <= set(on_gpu)
    assert not gate.reasons(PHASES, "self_ms", on="cuda")
