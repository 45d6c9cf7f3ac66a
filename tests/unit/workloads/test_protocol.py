"""A workload is found by its class path and refused in one line where it cannot be used."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpu_report.study.catalogue import BUILT_IN_WORKLOADS
from gpu_report.study.study import Workload
from gpu_report.workloads.protocol import DeclaresBetter, WorkloadError, load_workload

OWN_MODULE = """
from dataclasses import dataclass


class Half:
    title = "half a workload"

    def __init__(self, *, size, seed, depth=1):
        self.depth = depth


class Short:
    def build_model(self): ...
    def train_data(self): ...
    def loss(self, output, target): ...


class ByStep:
    build_model = train_data = training_step = Short.build_model


class Unsure(Short):
    quality_better = "smaller"


class JudgesNothing(Short):
    def quality(self, output, target): ...


class GuessesNothing(Short):
    def chance(self): ...


class LearnsText(Short):
    quality_name = "loss"

    def test_data(self): ...


class NamesAMetric(Short):
    quality_name = "accuracy"


@dataclass(frozen=True)
class Frozen(Short):
    seed: int
    width: int = 8

    def test_data(self): ...
    def quality(self, output, target): ...


class Slotted:
    __slots__ = ()

    def build_model(self): ...
    def train_data(self): ...
    def loss(self, output, target): ...
"""


def workload(class_path: str, **settings: object) -> Workload:
    return Workload(name="mine", class_path=class_path, settings=settings)


@pytest.mark.parametrize(
    ("class_path", "settings", "named"),
    [
        ("no_such_module:Half", {}, "no_such_module.*PYTHONPATH"),
        ("own_workload:Whole", {}, "no class 'Whole'; it has: .*Half"),
        (
            "own_workload:Half",
            {"width": 2},
            "unexpected keyword argument 'width'; it takes size, seed, depth",
        ),
        ("own_workload:Half", {}, "lacks build_model, train_data, loss; .* new-workload"),
        ("own_workload:Unsure", {}, "Unsure.quality_better is 'smaller'; use higher or lower"),
        ("own_workload:JudgesNothing", {}, "has quality and no test_data"),
        ("own_workload:GuessesNothing", {}, "has chance and no quality"),
        ("own_workload:NamesAMetric", {}, "has quality_name and no quality"),
        ("own_workload:Slotted", {}, "Slotted: .*__slots__"),
        (
            "own_workload:Short",
            {"width": 2},
            "unexpected keyword argument 'width'; it takes no arguments",
        ),
    ],
)
def test_a_workload_that_cannot_be_used_is_refused_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    class_path: str,
    settings: dict[str, object],
    named: str,
) -> None:
    (tmp_path / "own_workload.py").write_text(OWN_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(WorkloadError, match=named) as raised:
        load_workload(workload(class_path, **settings), size="default", seed=0)

    assert str(raised.value).startswith("workloads.mine: ")
    assert "\n" not in str(raised.value)


def test_three_methods_are_a_workload_and_a_size_must_be_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_workload.py").write_text(OWN_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))

    for name in ("Short", "ByStep"):
        loaded = load_workload(workload(f"own_workload:{name}"), size="default", seed=0)
        assert (loaded.title, loaded.quality_name, loaded.test_data(), loaded.chance()) == (
            "",
            "",
            None,
            None,
        )
    frozen = load_workload(workload("own_workload:Frozen", width=4), size="default", seed=3)
    assert (frozen.quality_name, vars(frozen)["seed"], vars(frozen)["width"]) == ("metric", 3, 4)
    with pytest.raises(WorkloadError, match="unexpected keyword argument 'size'"):
        load_workload(workload("own_workload:Short"), size="large", seed=0)


def test_a_held_out_loss_is_a_metric_that_needs_no_code_and_falls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_workload.py").write_text(OWN_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))

    loaded = load_workload(workload("own_workload:LearnsText"), size="default", seed=0)

    assert isinstance(loaded, DeclaresBetter)
    assert (loaded.quality_name, loaded.quality_better) == ("loss", "lower")


@pytest.mark.parametrize(
    ("name", "size", "settings", "named"),
    [
        ("unet", "96px", {}, "'96px'; use one of 32px, 64px, 128px"),
        ("lstm", "default", {"train_samples": 0}, "workloads.lstm.train_samples: 0"),
        ("cnn", "small", {"learning_rate": -1.0}, "workloads.cnn.learning_rate: -1.0"),
        ("cnn", "small", {"data": "mnist"}, "workloads.cnn.data: there is no data 'mnist'"),
    ],
)
def test_an_impossible_setting_is_named(
    name: str, size: str, settings: dict[str, object], named: str
) -> None:
    entry = BUILT_IN_WORKLOADS[name]

    with pytest.raises(WorkloadError, match=named):
        load_workload(
            Workload(name=name, class_path=entry.class_path, settings=settings), size=size, seed=0
        )


@pytest.mark.parametrize("module", ["protocol", "jpeg_files"])
def test_the_protocol_and_the_jpeg_writer_do_without_torch(module: str) -> None:
    code = f"import gpu_report.workloads.{module}, sys; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
