from dataclasses import replace

from gpu_report.study.variant import Variant
from gpu_report.tables.bundle import Tables
from gpu_report.tables.profiled import shown_profiles
from tests.unit.figures.drawn import study_and_tables


def tables_with(half: float = 0.1, processes: int = 5, **throughputs: float) -> Tables:
    """Of the default study the variants with these throughputs by what is switched on, the others with 1.

    `half` is half of each interval, as a share.
    """
    _, tables = study_and_tables("optimization", "device", "linear_regression")
    changed = {}
    for name, frame in tables.experiments.items():
        rates = frame["options"].map(throughputs).fillna(1.0)
        ends = {"throughput_per_s_low": rates * (1 - half), "throughput_per_s_high": rates * (1 + half)}
        changed[name] = frame.assign(throughput_per_s=rates, throughput_per_s_count=processes, **ends)
    return replace(tables, experiments=changed)


def options_of(tables: Tables, workload: str) -> list[str]:
    variants = map(Variant.from_slug, shown_profiles(tables))
    return [variant.options for variant in variants if variant.workload == workload]


def test_the_eager_baseline_is_beside_the_fastest() -> None:
    assert options_of(tables_with(graphs=9.0, resident=2.0), "lstm") == ["none", "graphs"]


def test_what_is_not_faster_by_its_interval_is_not_shown() -> None:
    assert options_of(tables_with(half=0.9, graphs=9.0), "lstm") == ["none"]


def test_from_three_processes_nothing_is_said_to_be_faster() -> None:
    assert options_of(tables_with(processes=3, graphs=9.0), "lstm") == ["none"]


def test_a_bound_is_not_shown_as_the_fastest_loop() -> None:
    found = options_of(tables_with(statistics=99.0, persistent=9.0), "linear_regression")

    assert found == ["none", "persistent"]


def test_a_baseline_that_is_the_fastest_is_alone() -> None:
    assert options_of(tables_with(none=9.0), "lstm") == ["none"]


def test_where_an_accelerator_was_measured_none_on_the_cpu_is_shown() -> None:
    shown = shown_profiles(tables_with())

    assert shown
    assert not [slug for slug in shown if Variant.from_slug(slug).device == "cpu"]
