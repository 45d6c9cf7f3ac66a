import json
import os
from pathlib import Path

import pytest

from gpu_report.study.machine import Accelerator, Machine, cpu_has_bf16, find_machine

H100 = Accelerator(backend="cuda", name="NVIDIA H100 80GB HBM3", memory_gib=79.1)


@pytest.mark.parametrize(
    ("cpu_model", "accelerators", "expected"),
    [
        ("Intel(R) Xeon(R) Processor @ 2.60GHz", (H100,), "h100-80gb-x1-xeon-16c"),
        (
            "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz",
            (H100, H100),
            "h100-80gb-x2-xeon-platinum-8481c-16c",
        ),
        ("AMD EPYC 7763 64-Core Processor", (), "epyc-7763-16c"),
        (
            "13th Gen Intel(R) Core(TM) i7-13700H",
            (
                Accelerator(
                    backend="cuda", name="NVIDIA GeForce RTX 3070 Ti Laptop GPU", memory_gib=8.0
                ),
            ),
            "rtx-3070-ti-laptop-8gb-x1-i7-13700h-16c",
        ),
        (
            "Apple M2 Pro",
            (Accelerator(backend="mps", name="mps", memory_gib=21.3),),
            "mps-21gb-x1-m2-pro-16c",
        ),
    ],
)
def test_the_id_names_the_hardware(
    cpu_model: str, accelerators: tuple[Accelerator, ...], expected: str
) -> None:
    machine = Machine(cpu_model=cpu_model, cores=16, memory_gib=64, accelerators=accelerators)

    assert machine.id == expected


def test_the_first_accelerator_goes_by_its_kind_and_the_second_by_its_index() -> None:
    machine = Machine(cpu_model="", cores=1, memory_gib=1, accelerators=(H100, H100))

    assert machine.devices == ("cpu", "cuda", "cuda:1")


@pytest.mark.slow
def test_a_cpu_computes_in_bf16_where_its_flags_say_so(tmp_path: Path) -> None:
    lines = ["avx2 avx512_bf16 fma", "amx_bf16 amx_tile", "avx2 avx512f"]
    for number, line in enumerate(lines):
        (tmp_path / str(number)).write_text(f"flags : {line}\n")

    assert [cpu_has_bf16(tmp_path / name) for name in ("0", "1", "2", "absent")] == [
        *(True, True),
        *(False, False),
    ]


def test_pytorch_is_asked_once_and_again_when_the_environment_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "here.json"
    found = find_machine(cache)
    written = cache.stat().st_mtime_ns

    assert find_machine(cache) == found
    assert cache.stat().st_mtime_ns == written

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    find_machine(cache)
    assert cache.stat().st_mtime_ns > written


BUSY_TORCH = """
class Kind:
    type = "cuda"

class accelerator:
    current_accelerator = staticmethod(lambda check_available: None if check_available else Kind)

def zeros(count, device):
    raise RuntimeError("CUDA driver is starting")

__version__ = "2.99"
"""


@pytest.fixture
def busy_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PyTorch that is asked in a moment, and whose accelerator cannot be used; it has no device
    file.
    """
    (tmp_path / "torch.py").write_text(BUSY_TORCH, "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr("gpu_report.study.machine._DEVICE_FILES", ())


@pytest.mark.usefixtures("busy_torch")
@pytest.mark.parametrize("content", ['{"key": ', "[]", "3", '{"machine": {}}'])
def test_a_damaged_cache_is_made_again(tmp_path: Path, content: str) -> None:
    cache = tmp_path / "here.json"
    cache.write_text(content, "utf-8")

    assert find_machine(cache).devices[0] == "cpu"


@pytest.mark.usefixtures("busy_torch")
def test_a_cache_of_another_version_of_the_package_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "here.json"
    find_machine(cache)
    monkeypatch.setattr("gpu_report.study.machine.__version__", "0.0.0")
    find_machine(cache)

    assert json.loads(cache.read_text("utf-8"))["key"]["package"] == "0.0.0"


@pytest.mark.usefixtures("busy_torch")
@pytest.mark.parametrize(("device_file", "is_kept"), [("nvidia0", False), ("nvidia1", True)])
def test_an_accelerator_that_fails_just_now_is_asked_for_again_where_it_has_a_device_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device_file: str, *, is_kept: bool
) -> None:
    (tmp_path / "nvidia0").touch()
    monkeypatch.setattr("gpu_report.study.machine._DEVICE_FILES", (str(tmp_path / device_file),))
    cache = tmp_path / "here.json"

    assert (
        find_machine(cache).accelerator_reason
        == "torch 2.99 was built for cuda, but: CUDA driver is starting"
    )
    assert cache.exists() == is_kept
