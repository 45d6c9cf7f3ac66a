from pathlib import Path

import pytest

from gpu_report.machine import Accelerator, Machine, find_machine

H100 = Accelerator(backend="cuda", name="NVIDIA H100 80GB HBM3", memory_gib=79.1)


@pytest.mark.parametrize(
    ("cpu_model", "accelerators", "expected"),
    [
        ("Intel(R) Xeon(R) Processor @ 2.60GHz", (H100,), "h100-80gb-x1-xeon-16c"),
        ("Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", (H100, H100), "h100-80gb-x2-xeon-platinum-8481c-16c"),
        ("AMD EPYC 7763 64-Core Processor", (), "epyc-7763-16c"),
        (
            "13th Gen Intel(R) Core(TM) i7-13700H",
            (Accelerator(backend="cuda", name="NVIDIA GeForce RTX 3070 Ti Laptop GPU", memory_gib=8.0),),
            "rtx-3070-ti-laptop-8gb-x1-i7-13700h-16c",
        ),
        ("Apple M2 Pro", (Accelerator(backend="mps", name="mps", memory_gib=21.3),), "mps-21gb-x1-m2-pro-16c"),
        ("", (), "cpu-16c"),
    ],
)
def test_the_id_names_the_hardware(cpu_model: str, accelerators: tuple[Accelerator, ...], expected: str) -> None:
    machine = Machine(cpu_model=cpu_model, cores=16, memory_gib=64, accelerators=accelerators)

    assert machine.id == expected


def test_the_first_accelerator_goes_by_its_kind_and_the_second_by_its_index() -> None:
    machine = Machine(cpu_model="", cores=1, memory_gib=1, accelerators=(H100, H100))

    assert machine.devices == ("cpu", "cuda", "cuda:1")


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


def test_a_damaged_cache_is_made_again(tmp_path: Path) -> None:
    cache = tmp_path / "here.json"
    cache.write_text('{"key": ', "utf-8")

    assert find_machine(cache).devices[0] == "cpu"
