import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gpu_report.figures.declaration import Shown, Subject
from gpu_report.figures.stacked_bars import profiled_rows
from gpu_report.glossary import METRICS, Row
from gpu_report.records.record import Record
from gpu_report.tables.bundle import best_of_each, rows_of
from gpu_report.writing import rows
from gpu_report.writing.machine import MachineResults
from gpu_report.writing.table import metric
from tests.factories import SCALING, make_calibration, make_records, make_tables
from tests.report.synthetic import results_of, results_on, tables_of
from tests.unit.figures.drawn import study_of, with_failures


def longest(machine: MachineResults, table: str) -> list[Row]:
    return rows.longest(rows.profiled_steps(machine), getattr(machine.tables, table))


def longest_kernels(machine: MachineResults) -> list[Row]:
    return rows.longest_kernels(rows.profiled_steps(machine), machine.tables)


def changed(*devices: str, **tables: Any) -> MachineResults:
    """The machine that measured the default study on these devices, with some of its tables
    changed.
    """
    results = results_on(*devices)
    return replace(results, tables=replace(results.tables, **tables))


def test_the_steps_shown_are_those_of_the_figure() -> None:
    machine = results_on("cpu", "cuda")

    in_figure = profiled_rows(
        Shown(rows=machine.tables.variants, subject=Subject(), tables=machine.tables)
    )

    assert [row["variant"] for row in rows.profiled_steps(machine)] == in_figure["variant"].tolist()


@pytest.mark.parametrize(
    "table", ["operation_memory", "category_speedups", "top_operations", "top_kernels"]
)
def test_the_longest_are_those_of_the_first_two_variants_that_have_them(table: str) -> None:
    machine = results_on("cpu", "cuda")
    frame = getattr(machine.tables, table)

    found = longest(machine, table)

    having = [
        row["variant"]
        for row in rows.profiled_steps(machine)
        if row["variant"] in set(frame["variant"])
    ][:2]
    assert list(dict.fromkeys(row["variant"] for row in found)) == having
    assert len(found) == len(frame[frame["variant"].isin(having)].groupby("variant").head(3)) > 0


def test_a_variant_without_kernels_leaves_its_place_to_the_next() -> None:
    kernels = tables_of("cpu", "cuda").top_kernels
    first, *others = dict.fromkeys(
        row["variant"] for row in longest_kernels(results_on("cpu", "cuda"))
    )

    found = longest_kernels(
        changed("cpu", "cuda", top_kernels=kernels[kernels["variant"] != first])
    )

    assert next(iter(found))["variant"] == others[0]
    assert len({row["variant"] for row in found}) == 2


def test_a_speedup_of_a_category_has_no_interval_of_the_configurations_speedup() -> None:
    found = longest(results_on("cpu", "cuda"), "category_speedups")

    assert found
    assert not any(METRICS["speedup"].quantity(row).has_interval for row in found)


def test_without_an_accelerator_memory_is_the_hosts_and_nothing_is_faster_there() -> None:
    machine = results_on("cpu")

    assert longest(machine, "operation_memory")
    assert longest(machine, "category_speedups") == []


def test_a_step_has_the_sentence_of_each_check_that_its_trace_failed() -> None:
    doubts = [row["doubts"] for row in rows.profiled_steps(results_on("cpu", "cuda"))]

    assert "a profiled step took 2.40 times a timed one" in doubts
    assert "" in doubts


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


def test_what_launched_a_kernel_is_not_reliable_where_its_trace_failed_the_check() -> None:
    machine = results_on("cpu", "cuda")
    (kernel, *_) = longest_kernels(machine)
    doubts = machine.tables.trace_doubts.iloc[:1].assign(
        variant=kernel["variant"], spoils="kernels.category, kernels.operation, steps.other_ms"
    )

    (doubted, *_) = longest_kernels(changed("cpu", "cuda", trace_doubts=doubts))

    assert (doubted["category"], doubted["launched by"]) == ("not reliable", "not reliable")
    assert "not reliable" not in (kernel["category"], kernel["launched by"])


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("void fill<float>(int, float*)", "fill<float>"),
        ("void at::(anonymous)::add(int)", "at::(anonymous)::add"),
        ("void apply<f(int)>(g(float))", "apply<f(int)>"),
        ("sm80_xmma_gemm", "sm80_xmma_gemm"),
        ("Memset (Device)", "Memset (Device)"),
        ("void )", "void )"),
    ],
)
def test_a_kernel_is_named_without_what_it_returns_and_takes(name: str, shown: str) -> None:
    assert rows.kernel_name({"name": name}) == shown


def test_checks_have_how_many_failed_them_and_what_is_left_out() -> None:
    lost: Row = {"check": "device work", "spoils": "idle, steps.kernel_ms, steps.other_ms"}
    failed = [{"variant": "a", **lost}, {"variant": "a", **lost}, {"variant": "b", **lost}]
    doubts = tables_of("cpu").trace_doubts.iloc[:0]

    frame = type(doubts)([*failed, {"variant": "a", "check": "text", "spoils": ""}])
    device_work, text = rows.failed_checks(changed("cpu", trace_doubts=frame).tables)

    assert (device_work["check"], device_work["variants"]) == ("device work", 2)
    assert device_work["left out"] == "idle, steps (kernel, other)"
    assert (text["variants"], text["left out"]) == (1, "nothing")


def test_every_ceiling_is_in_its_own_unit_beside_the_data_sheet_where_one_is_known() -> None:
    found = rows.ceilings(tables_of("cpu", "cuda"))

    reached = " ".join(row["reached"] for row in found)
    assert "TFLOP/s" in reached
    assert "GB/s" in reached
    assert "989 TFLOP/s" in [row["data sheet"] for row in found]
    assert {row["data sheet"] for row in found if row["device"] == "cpu"} == {""}
    assert "white paper" in " ".join(rows.data_sheet_notes(found))


def test_of_each_combination_the_row_with_the_most_is_kept() -> None:
    tables = tables_of("cpu", "cuda")
    every = rows_of(tables.efficiency)

    found = best_of_each(every, "achieved_flops_per_s", "workload", "device", "precision")

    kinds = {(row["workload"], row["device"], row["precision"]) for row in every}
    assert len(found) == len(kinds) < len(every)
    assert max(row["achieved_flops_per_s"] for row in every) in [
        row["achieved_flops_per_s"] for row in found
    ]


def test_a_cost_is_in_the_currency_of_the_prices() -> None:
    watched = results_on("cpu", "cuda").watched

    assert rows.cost_of_epochs(watched).unit_of(watched) == "EUR"


@pytest.mark.parametrize(
    ("per_kwh", "per_device_hour", "missing"),
    [
        (0.25, 2.5, []),
        (0.25, math.nan, ["prices.per_device_hour"]),
        (math.nan, 2.5, ["prices.per_kwh"]),
        (math.nan, math.nan, ["prices.per_kwh", "prices.per_device_hour"]),
    ],
)
def test_the_note_of_the_costs_names_each_price_and_where_one_is_missing(
    per_kwh: float, per_device_hour: float, missing: list[str]
) -> None:
    note = rows.cost_note(
        [{"price_per_kwh": per_kwh, "price_per_device_hour": per_device_hour, "currency": "EUR"}]
    )

    assert [
        name for name in ("prices.per_kwh", "prices.per_device_hour") if name in note
    ] == missing
    assert ("0.25 EUR per kWh" in note) == math.isfinite(per_kwh)
    assert ("2.5 EUR per hour" in note) == math.isfinite(per_device_hour)


def test_devices_are_compared_after_the_last_epoch_of_each_pair() -> None:
    machine = results_on("cpu", "cuda")
    consistency = machine.tables.consistency
    last = consistency["epoch"] == consistency.groupby("workload")["epoch"].transform("max")
    earlier = consistency.assign(
        difference_percent=consistency["difference_percent"].where(last, 77.0)
    )

    found = rows.differences_between_devices(changed("cpu", "cuda", consistency=earlier))

    assert found
    assert len(found) == len(
        {(row["workload"], row["size"], row["batch_size"], row["device"]) for row in found}
    )
    assert 77.0 not in [
        row[f"difference_{name}"] for row in found for name in set(consistency["metric"])
    ]


def scaling(*, records: Sequence[Record] | None = None) -> tuple[MachineResults, Sequence[Row]]:
    """A machine that measured how trainings scale, and the rows of that experiment."""
    study = study_of(scaling=SCALING)
    machine = results_of(study, records=make_records(study) if records is None else records)
    return machine, machine.rows_of("scaling")


def test_each_method_is_below_the_plain_process_that_it_is_compared_with() -> None:
    found = rows.sharing(*scaling())

    assert {row["heading"] for row in found} == {"U-Net 64px, 8 samples per step"}
    assert [*dict.fromkeys(row["configuration"] for row in found)] == [
        "eager fp32",
        "captured bf16",
    ]
    methods = [(row["method"], row["devices"]) for row in found]
    weak = [("DDP", 1), ("DDP", 2), ("FSDP2", 2), ("DataParallel (discouraged)", 2)]
    strong = ("DDP, batch divided", 2)
    assert methods == [("one process", 1), *weak, strong, ("one process", 1), ("DDP", 2)]
    assert found[0]["throughput_per_device_per_s"] == found[0]["throughput_per_s"]


def test_where_no_plain_process_was_measured_by_itself_the_one_in_turn_has_its_row() -> None:
    study = study_of(scaling=SCALING)
    shared = [
        each.slug
        for each in study.variants
        if each.parallelism in ("ddp2", "fsdp2") and each.precision == "fp32"
    ]
    study = study.restricted_to([slug for slug in shared if "-b16-" in slug])
    machine = results_of(study, records=make_records(study))

    alone, *others = rows.sharing(machine, machine.rows_of("scaling"))

    assert [(row["method"], row["devices"]) for row in (alone, *others)] == [
        ("one process", 1),
        ("DDP", 2),
        ("FSDP2", 2),
    ]
    assert (
        alone["throughput_per_s"]
        == alone["throughput_per_device_per_s"]
        == others[0]["base_throughput_per_s"]
    )
    assert math.isnan(alone["memory_allocated_most_mib"])
    assert used(machine, machine.rows_of("scaling")).keys() == {"weak: most samples/s"}


def test_configurations_that_run_alike_are_named_by_their_options() -> None:
    eager, *others = SCALING["grid"]
    study = study_of(
        scaling={**SCALING, "grid": [eager, {**eager, "optimization": "resident"}, *others]}
    )
    machine = results_of(study, records=make_records(study))

    found = rows.sharing(machine, machine.rows_of("scaling"))

    names = [*dict.fromkeys(row["configuration"] for row in found)]
    assert names == ["eager fp32", "resident fp32", "captured bf16"]


def test_a_training_that_failed_keeps_its_row() -> None:
    study = study_of(scaling=SCALING)
    records = with_failures(make_records(study), fsdp2="oom")

    found = rows.sharing(*scaling(records=records))

    assert [row["status"] for row in found if row["method"] == "FSDP2"] == ["oom"]


def test_a_divided_batch_that_failed_is_beside_the_process_that_has_all_of_it() -> None:
    study = study_of(scaling=SCALING)
    (divided,) = (row["variant"] for row in rows.sharing(*scaling()) if row["is_divided"])
    records = with_failures(make_records(study), **{divided: "failed"})

    (row,) = (row for row in rows.sharing(*scaling(records=records)) if row["variant"] == divided)

    assert (row["is_divided"], row["status"]) == (True, "failed")
    assert row["heading"] == "U-Net 64px, 8 samples per step"


def test_a_divided_batch_is_compared_with_the_process_that_has_all_of_it() -> None:
    (row,) = (row for row in rows.sharing(*scaling()) if row["is_divided"])

    assert (row["batch_size"], row["devices"]) == (8, 2)
    assert row["base_speedup"] == row["strong_speedup"]
    assert row["weak_efficiency"] == row["strong_efficiency"]


def test_agents_that_share_a_host_are_said_to_test_no_network() -> None:
    machine, shown = scaling()
    several = machine.tables.scaling_efficiency.assign(agents=2, hosts=1)

    (note,) = rows.notes_on_ranks(machine, rows.sharing(*with_scaling(machine, several), shown))

    assert "DDP" in note
    assert "not a network" in note
    assert rows.notes_on_ranks(machine, rows.sharing(machine, shown)) == []


def test_hosts_that_share_a_training_are_in_the_name_of_its_method() -> None:
    machine, shown = scaling()
    several = machine.tables.scaling_efficiency.assign(agents=2, hosts=2)

    found = rows.sharing(*with_scaling(machine, several), shown)

    assert "DDP, 2 hosts" in {row["method"] for row in found}
    assert rows.notes_on_ranks(machine, found) == []


def test_a_note_has_the_options_behind_the_names_of_configurations() -> None:
    machine, shown = scaling()

    (note,) = rows.notes_on_configurations(rows.sharing(machine, shown))

    assert note.count("U-Net 64px, captured: data on the device and CUDA graphs") == 1
    assert "eager" not in note


def test_a_slow_rank_is_named() -> None:
    machine, shown = scaling()
    ranks = machine.tables.ranks
    optimized = next(
        row["variant"] for row in shown if row["precision"] == "bf16" and row["strategy"] == "ddp"
    )
    slow = replace(
        machine.tables,
        ranks=ranks.assign(is_slow=(ranks["variant"] == optimized) & (ranks["rank"] == 1)),
    )

    (note,) = rows.notes_on_ranks(replace(machine, tables=slow), rows.sharing(machine, shown))

    assert "U-Net 64px, 8 samples per step, captured bf16, DDP, 2 devices (rank 1)" in note


def with_scaling(machine: MachineResults, frame: Any) -> tuple[MachineResults]:
    return (replace(machine, tables=replace(machine.tables, scaling_efficiency=frame)),)


def used(machine: MachineResults, shown: Sequence[Row]) -> dict[str, Row]:
    return {row["situation"]: row for row in rows.what_to_use(machine, shown)}


def strong_speedup(value: float, low: float, high: float, count: int = 5) -> dict[str, float]:
    ends = {"low": low, "high": high, "count": count}
    return {"strong_speedup": value} | {
        f"strong_speedup_{end}": number for end, number in ends.items()
    }


def test_what_to_use_follows_from_what_was_measured() -> None:
    machine, shown = scaling()

    uses = {situation: row["use"] for situation, row in used(machine, shown).items()}

    assert uses == {
        "weak: most samples/s": "DDP on 2",
        "weak: least memory": "FSDP2 on 2",
        "strong: most samples/s": "DDP on 2",
    }


@pytest.mark.parametrize(
    ("figure", "use", "reason"),
    [
        ((0.9, 0.8, 0.95), "one GPU", ""),
        ((1.1, 0.9, 1.3), "not resolved", "the interval includes 1"),
        ((1.5, math.nan, math.nan, 1), "not resolved", "1 process gives no 95 % interval"),
    ],
)
def test_what_is_not_faster_for_sure_is_no_advice(
    figure: tuple[float, ...], use: str, reason: str
) -> None:
    machine, shown = scaling()
    changed = machine.tables.scaling_efficiency.assign(**strong_speedup(*figure))  # type: ignore[arg-type]

    row = used(*with_scaling(machine, changed), shown)["strong: most samples/s"]

    assert row["use"] == use
    assert reason in row["measured"]


def test_what_was_not_compared_is_not_advised() -> None:
    machine, shown = scaling()
    missing = dict.fromkeys(("strong_speedup", "base_speedup"), math.nan)

    assert (
        used(*with_scaling(machine, machine.tables.scaling_efficiency.assign(**missing)), shown)
        == {}
    )


def test_nothing_is_said_to_save_memory_where_all_need_more() -> None:
    study = study_of(scaling=SCALING)
    machine, shown = scaling(records=with_failures(make_records(study), fsdp2="oom"))

    assert "weak: least memory" not in used(machine, shown)


def test_the_link_is_said_in_a_sentence_where_it_was_measured() -> None:
    study = study_of(scaling=SCALING)
    tables = make_tables(study, make_records(study), calibration=make_calibration(linked=2))

    said = rows.link_in_words(results_of(study, tables=tables))
    assert "1 GiB" in said
    assert "18 NVLinks" in said
    assert rows.link_in_words(scaling()[0]) == ""
