import pytest

from gpu_report.figures.registry import available_figures
from gpu_report.printing.number_format import quantity
from tests.factories import make_records, make_tables
from tests.unit.figures.drawn import (
    specs_by_name,
    specs_of,
    study_and_tables,
    study_of,
    with_failures,
)


def test_every_figure_is_described_without_gaps() -> None:
    study, tables = study_and_tables(
        *(
            "device",
            "crossover",
            "frontier",
            "models",
            "workers",
            "precision",
            "optimization",
            "memory",
        )
    )

    for spec in available_figures(tables, study.experiments):
        assert spec.alt.endswith("."), spec.name
        assert len(spec.alt) > 40, spec.name
        assert not {"nan", "{", "}"} & set(spec.alt.replace("{", " { ").split()), spec.name


def test_the_extremes_named_are_those_of_the_table() -> None:
    _, tables = study_and_tables("workers")

    alt = specs_of("workers")["workers_throughput"].alt

    rows = tables.experiments["workers"]
    least, most = rows["throughput_per_s"].min(), rows["throughput_per_s"].max()
    assert f"reaches from {quantity(least, 'samples/s').plain()} (" in alt
    assert f" to {quantity(most, 'samples/s').plain()} (" in alt
    assert "0\N{NO-BREAK SPACE}workers to 8." in alt


@pytest.mark.parametrize("failed", ["w0", "w8"])
def test_a_variant_without_a_number_is_no_extreme(failed: str) -> None:
    study = study_of("workers")
    tables = make_tables(study, with_failures(make_records(study, processes=1), **{failed: "oom"}))

    alt = specs_by_name(tables, study)["workers_throughput"].alt

    ends = alt.partition("reaches from")[2]
    assert f"{failed[1:]}\N{NO-BREAK SPACE}workers" not in ends


def test_the_largest_parts_come_first() -> None:
    alt = specs_of("device")["device_phases"].alt

    shares = [
        float(word)
        for word in alt.partition("on average")[2].replace(",", " ").split()
        if word[0].isdigit()
    ]
    assert shares == sorted(shares, reverse=True)
    assert len(shares) == 3
