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


def test_comparisons_between_two_sessions_are_counted_among_the_doubts() -> None:
    machine = results_on("cpu", "cuda")
    experiments = dict(machine.tables.experiments)
    table = experiments["precision"]
    other = table["is_baseline"].map({True: "", False: "other session"})
    experiments["precision"] = table.assign(marks=other)
    apart = replace(machine, tables=replace(machine.tables, experiments=experiments))
    number = (~table["is_baseline"] & table["speedup"].notna()).sum()

    (added,) = {*apart.doubts} - {*machine.doubts}

    assert number
    assert f" {number} compare two sessions" in added
