import pytest

from tests.factories import make_records, make_tables
from tests.unit.figures.drawn import specs_by_name, study_of, with_failures


@pytest.mark.parametrize("failed", ["w0", "w8"])
def test_a_variant_without_a_number_is_no_extreme(failed: str) -> None:
    files = {"workload": "image_files", "batch_size": 16, "workers": [0, 2, 4, 8], "epochs": 2}
    study = study_of(
        loading={"question": "Do workers help?", "axis": "workers", "baseline": 0, "grid": [files]}
    )
    tables = make_tables(study, with_failures(make_records(study, processes=1), **{failed: "oom"}))

    alt = specs_by_name(tables, study)["loading_throughput"].alt

    ends = alt.partition("reaches from")[2]
    assert f"{failed[1:]}\N{NO-BREAK SPACE}workers" not in ends
