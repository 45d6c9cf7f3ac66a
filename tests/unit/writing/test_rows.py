import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gpu_report.glossary import Row
from gpu_report.records.record import Record
from gpu_report.writing import rows
from gpu_report.writing.cards import notes_on_precision
from gpu_report.writing.machine import MachineResults
from gpu_report.writing.table import metric
from tests.factories import SCALING, make_record, make_records, with_tables
from tests.report.synthetic import results_of, results_on
from tests.unit.figures.drawn import study_of


def longest(machine: MachineResults, table: str) -> list[Row]:
    return rows.longest(rows.profiled_steps(machine), getattr(machine.tables, table))


def longest_kernels(machine: MachineResults) -> list[Row]:
    return rows.longest_kernels(rows.profiled_steps(machine), machine.tables)


def changed(*devices: str, **tables: Any) -> MachineResults:
    """The machine that measured the default study on these devices, with some of its tables
    changed.
    """
    results = results_on(*devices)
    return replace(results, tables=with_tables(results.tables, **tables))


@pytest.mark.parametrize(
    ("device", "doubts", "column", "is_reliable"),
    [
        ("cuda", "slowed", "device_busy_share", False),
        ("cuda", "", "device_busy_share", True),
        ("cpu", "slowed", "device_busy_share", True),
        ("cpu", "slowed", "loader_share", False),
    ],
)
def test_a_missing_number_is_not_reliable_where_a_check_failed_and_the_device_has_it(
    device: str, doubts: str, column: str, *, is_reliable: bool
) -> None:
    row = {"device": device, "doubts": doubts, column: math.nan}

    assert (rows.not_reliable(row, metric(column, "share")) == "") == is_reliable
    assert rows.not_reliable({**row, column: 0.5}, metric(column, "share")) == ""


def test_a_failed_check_is_noted_only_where_it_leaves_a_share_out() -> None:
    row = {"doubts": "a check failed", "launch_bound_share": 0.2, "mean_queue": math.nan}

    assert rows.doubts_of(row) == []
    assert rows.doubts_of({**row, "launch_bound_share": math.nan}) == ["a check failed"]


def test_what_launched_a_kernel_is_not_reliable_where_its_trace_failed_the_check() -> None:
    machine = results_on("cpu", "cuda")
    (kernel, *_) = longest_kernels(machine)
    doubts = machine.tables.trace_doubts.iloc[:1].assign(
        variant=kernel["variant"], spoils="kernels.category, kernels.operation, steps.other_ms"
    )

    lost = machine.tables.top_kernels.assign(category="", operation="")
    by_name = lost.assign(category="copy")

    (doubted, *_), (named, *_) = (
        longest_kernels(changed("cpu", "cuda", trace_doubts=doubts, top_kernels=kernels))
        for kernels in (lost, by_name)
    )

    assert (doubted["category"], doubted["launched by"]) == ("not reliable", "not reliable")
    assert (named["category"], named["launched by"]) == ("copy", "not reliable")
    assert "not reliable" not in (kernel["category"], kernel["launched by"])


def scaling(*, records: Sequence[Record] | None = None) -> tuple[MachineResults, Sequence[Row]]:
    """A machine that measured how trainings scale, and the rows of that experiment."""
    study = study_of(scaling=SCALING)
    machine = results_of(study, records=make_records(study) if records is None else records)
    return machine, machine.rows_of("scaling")


def test_agents_that_share_a_host_are_said_to_test_no_network_and_hosts_are_named() -> None:
    machine, shown = scaling()
    measured = machine.tables.scaling_efficiency
    on_one, on_two = (
        rows.sharing(*with_scaling(machine, measured.assign(agents=2, hosts=hosts)), shown)
        for hosts in (1, 2)
    )

    (note,) = rows.notes_on_ranks(machine, on_one)

    assert "not a network" in note
    assert rows.notes_on_ranks(machine, on_two) == []
    assert "DDP, 2 hosts" in {row["method"] for row in on_two}
    assert "DDP, 4 per GPU" in {row["method"] for row in on_one}
    assert {row["heading"] for row in on_one} == {"U-Net 64px, 8 per GPU"}


def test_a_step_of_one_gpu_is_above_those_of_several_where_both_were_profiled() -> None:
    machine, shown = scaling()
    sharing = rows.sharing(machine, shown)
    found = rows.steps_of_sharing(machine.tables, sharing)
    alone = machine.tables.step_categories
    alone = alone[alone["variant"].isin([row["variant"] for row in found if row["devices"] == 1])]

    assert {row["devices"] for row in found} == {1, 2}
    for row in found:
        parts = row["own_ms"] + row["exchange_ms"] + row["idle_ms"]
        of_step = machine.tables.step_categories.set_index("variant").loc[row["variant"]]
        assert parts == pytest.approx(of_step["ms_per_step"].sum())
    assert rows.steps_of_sharing(with_tables(machine.tables, step_categories=alone), sharing) == []


def test_a_table_of_scaling_says_how_far_the_bases_of_its_speedups_are_from_its_rows() -> None:
    machine, shown = scaling()
    (alone, *_) = [row for row in rows.sharing(machine, shown) if row["devices"] == 1]
    measured = machine.tables.scaling_efficiency
    base = measured.assign(base_throughput_per_s=0.98 * alone["throughput_per_s"])
    one = base[base["plain_variant"] == alone["variant"]]

    found = rows.sharing(*with_scaling(machine, one), shown)

    (note,) = rows.notes_on_bases(found)
    assert "by 2.0 % at most" in note
    assert rows.notes_on_bases([row for row in found if row["strategy"] == "single"]) == []


def with_scaling(machine: MachineResults, frame: Any) -> tuple[MachineResults]:
    return (replace(machine, tables=with_tables(machine.tables, scaling_efficiency=frame)),)


def used(machine: MachineResults, shown: Sequence[Row]) -> dict[str, Row]:
    return {row["situation"]: row for row in rows.what_to_use(machine, shown)}


@pytest.mark.parametrize(
    ("figure", "use", "reason"),
    [
        ((0.9, 0.8, 0.95, 5), "one GPU", ""),
        ((1.1, 0.9, 1.3, 5), "too close to call", "the interval includes 1"),
        ((1.5, math.nan, math.nan, 1), "too close to call", "1 process gives no 95 % interval"),
    ],
)
def test_what_is_not_faster_for_sure_or_was_not_compared_is_no_advice(
    figure: tuple[float, ...], use: str, reason: str
) -> None:
    machine, shown = scaling()
    measured = machine.tables.scaling_efficiency
    names = [f"strong_speedup{end}" for end in ("", "_low", "_high", "_count")]
    changed = measured.assign(**dict(zip(names, figure, strict=True)))
    missing = measured.assign(strong_speedup=math.nan, base_speedup=math.nan)

    row = used(*with_scaling(machine, changed), shown)["strong: most samples/s"]

    assert row["use"] == use
    assert reason in row["measured"]
    assert used(*with_scaling(machine, missing), shown) == {}


@pytest.mark.parametrize(
    ("half_width", "printed"), [(0.01, ": 1.50×"), (0.3, ": 1.50× (1.20 to 1.80)")]
)
def test_what_to_use_has_the_interval_of_a_speedup_where_it_is_wide(
    half_width: float, printed: str
) -> None:
    machine, shown = scaling()
    names = [f"strong_speedup{end}" for end in ("", "_low", "_high", "_count")]
    figure = (1.5, 1.5 - half_width, 1.5 + half_width, 5)
    measured = machine.tables.scaling_efficiency.assign(**dict(zip(names, figure, strict=True)))

    row = used(*with_scaling(machine, measured), shown)["strong: most samples/s"]

    assert row["measured"].endswith(printed)


@pytest.mark.parametrize(("of_ddp", "saves"), [(0.8, True), (0.95, False), (1.1, False)])
def test_fsdp_is_used_where_it_takes_a_tenth_less_memory_than_ddp_of_the_same_code(
    of_ddp: float, *, saves: bool
) -> None:
    machine, shown = scaling()
    frame = machine.tables.scaling_efficiency
    memory = 100 * frame["strategy"].map({"fsdp": of_ddp, "ddp": 1.0}).fillna(9)
    memory *= frame["optimization"].map({"none": 1.0}).fillna(0.5)
    ends = {"": 1.0, "_low": 0.99, "_high": 1.01}
    peaks = {f"memory_allocated_most_mib{end}": by * memory for end, by in ends.items()}
    measured = frame.assign(**peaks)

    found = used(*with_scaling(machine, measured), shown)
    (unknown,) = with_scaling(machine, measured.assign(memory_allocated_most_mib=math.nan))

    assert ("weak: less memory than DDP" in found) == saves
    assert "weak: less memory than DDP" not in used(unknown, shown)
    if saves:
        least = found["weak: less memory than DDP"]
        assert least["use"] == "FSDP2 on 2"
        assert least["measured"].startswith("U-Net 64px, 8 per GPU: 0.80× the memory and ")


def test_what_fsdp_waits_for_is_beside_its_speed_where_its_step_was_profiled() -> None:
    machine, shown = scaling()
    least = used(machine, shown)["weak: less memory than DDP"]["measured"]
    steps = machine.tables.step_categories

    unprofiled = with_tables(machine.tables, step_categories=steps.iloc[:0])

    assert re.search(r"\(uncompiled fp32; [\d.]+ ms idle or waiting, [\d.]+ ms exchange\)", least)
    found = used(replace(machine, tables=unprofiled), shown)
    assert found["weak: less memory than DDP"]["measured"].endswith("(uncompiled fp32)")


def test_a_network_has_all_its_sizes_and_its_data_in_the_spelling_of_the_report() -> None:
    records = [make_record(f"resnet50-{size}-cuda-b64-w0-fp32-e2") for size in ("224px", "default")]
    said = [
        record.model_copy(
            update={
                "workload": record.workload
                and record.workload.model_copy(update={"data_description": "labelled colours"})
            }
        )
        for record in records
    ]

    (network,) = rows.networks(rows.trained_models(said))

    assert network["sizes"] == ["224px", ""]
    assert network["data"] == "labeled colors"


@pytest.mark.parametrize(("kernel", "says_it"), [("cell<__half>", True), ("cell<float>", False)])
def test_a_model_whose_recurrent_kernels_are_fp16_in_bf16_is_named(
    kernel: str, *, says_it: bool
) -> None:
    tables = results_on("cpu", "cuda").tables
    kernels = tables.top_kernels.iloc[:1].assign(category="recurrent", name=kernel)
    row = {"variant": kernels["variant"].iloc[0], "workload_title": "LSTM", "precision": "bf16"}
    known = with_tables(tables, top_kernels=kernels)

    assert len(notes_on_precision(known, [row, row])) == says_it
    assert notes_on_precision(known, [{**row, "precision": "fp32"}]) == []
    assert notes_on_precision(results_on("cpu").tables, [row]) == []


def test_sessions_without_sentinels_are_named_with_their_configurations() -> None:
    machine = results_on("cpu", "cuda")
    table = machine.tables.sentinels
    in_all = changed("cpu", "cuda", sentinels=table.reindex([0]).assign(session=1, status="ok"))
    of = f"1 ({len(machine.measured)} configurations)"

    assert rows.without_sentinels(in_all) == ""
    assert of in rows.without_sentinels(changed("cpu", "cuda", sentinels=table.iloc[:0]))


def test_a_sentinel_has_its_slowest_and_its_fastest_point_by_the_newest_protocol() -> None:
    variant = "lstm-cuda-b64-w0-fp32-e2-resident"
    speeds = [120.0, math.nan, 90.0, 40.0]
    table = results_on("cpu", "cuda").tables.sentinels
    table = table.reindex(range(4)).assign(
        variant=variant, status="ok", protocol_version=[4, 4, 4, 3], throughput_per_s=speeds
    )

    (found,) = rows.sentinels(changed("cpu", "cuda", sentinels=table))

    assert (found["slowest_per_s"], found["fastest_per_s"]) == (90.0, 120.0)
    assert "LSTM" in found["configuration"]


def test_a_sentinel_of_a_workload_that_the_study_does_not_train_has_its_title() -> None:
    table = results_on("cpu").tables.sentinels.reindex([0])
    table = table.assign(
        variant="other-cpu-b64-w0-fp32-e1x8", workload_title="image CNN", protocol_version=4
    )

    (found,) = rows.sentinels(changed("cpu", sentinels=table))

    assert found["configuration"].startswith("Image CNN on the CPU")
