"""The sections about DistributedDataParallel's settings and about models in parts."""

from functools import cache

from tests.factories import make_study
from tests.report.synthetic import render_study, section_with_floats
from tests.unit.findings.shared import CONFIG, base_of_shared


@cache
def printed(name: str) -> str:
    study, tables = base_of_shared()
    return section_with_floats(render_study(study, tables=tables), name).replace(
        r"\gpurepbreak{}", ""
    )


def on_cpu() -> str:
    """The settings as continuous integration tries them."""
    row = {"workload": "cnn", "size": "small", "device": "cpu", "batch_size": 32, "epochs": 2}
    asked = CONFIG["experiments"]["ddp_options"]
    grid = [{**row, "parallelism": "ddp2", "optimization": ["none", "bucket1", "nocomm"]}]
    config = {
        **CONFIG,
        "workloads": {"cnn": {"data": "synthetic", "train_samples": 64, "test_samples": 32}},
        "experiments": {"ddp_options": {**asked, "baseline": "none", "grid": grid}},
    }
    return section_with_floats(
        render_study(make_study(devices=("cpu",), config=config)), "ddp_options"
    )


def test_numbers_of_the_cpu_are_no_forecast() -> None:
    assert "no\nforecast" in on_cpu()
    assert "forecast" not in printed("ddp_options")
