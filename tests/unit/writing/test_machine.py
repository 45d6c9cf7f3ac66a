from dataclasses import replace

from tests.factories import with_tables
from tests.report.synthetic import results_on


def test_ranks_on_a_cpu_share_no_gpus() -> None:
    machine = results_on("cpu", "cuda")
    variants = machine.tables.variants

    def with_two_devices_on(device: str) -> bool:
        several = variants.assign(devices=variants["device"].eq(device) + 1)
        return replace(machine, tables=with_tables(machine.tables, variants=several)).shares_gpus

    assert with_two_devices_on("cuda")
    assert not with_two_devices_on("cpu")
