import pytest

from gpu_report.findings.derive import derive_findings
from gpu_report.findings.finding import Finding
from tests.factories import SCALING, make_record, make_records, make_study, make_tables
from tests.unit.findings.editing import CONFIG, Edit, base, cases, edited, figure, one

MODEL = "u_net_64px"
FIGURES = "scaling_efficiency"


def shared(column: str, value: float, spread: float = 0.0, **where: object) -> Edit:
    return Edit(table=FIGURES, where=where, cells=figure(column, value, spread))


def of_two(value: float, spread: float = 0.0, *, precision: str = "bf16") -> Edit:
    return shared("weak_efficiency", value, spread, strategy="ddp", devices=2, is_weak=True, precision=precision)


EAGER = of_two(0.96, 0.005, precision="fp32")
"""That of the eager baseline, with an interval to compare by."""

CASES = [
    *cases(f"scaling_pays/{MODEL}", yes=(), no=[of_two(0.8, 0.01)], unresolved=[of_two(0.9, 0.02)]),
    *cases(
        "scaling_ddp_cost",
        yes=[shared("weak_efficiency", 0.96, 0.01, devices=1)],
        no=[shared("weak_efficiency", 0.99, 0.005, devices=1)],
        unresolved=[shared("weak_efficiency", 0.98, 0.01, devices=1)],
    ),
    *cases(
        f"scaling_harder/{MODEL}",
        yes=[EAGER, of_two(0.85, 0.005)],
        no=[EAGER, of_two(0.99, 0.005)],
        unresolved=[EAGER, of_two(0.955, 0.02)],
    ),
    *cases(
        f"scaling_data_parallel/{MODEL}",
        yes=[
            shared("throughput_per_s", 990.0, 5.0, strategy="dp"),
            shared("throughput_per_s", 1000.0, 5.0, strategy="ddp", batch_size=16, precision="fp32"),
        ],
        no=(),
        unresolved=[
            shared("throughput_per_s", 950.0, 50.0, strategy="dp"),
            shared("throughput_per_s", 1000.0, 50.0, strategy="ddp", batch_size=16, precision="fp32"),
        ],
    ),
    *cases(
        f"scaling_strong/{MODEL}",
        yes=[shared("strong_speedup", 1.7, 0.1, is_strong=True)],
        no=[shared("strong_speedup", 0.9, 0.05, is_strong=True)],
        unresolved=[shared("strong_speedup", 1.0, 0.05, is_strong=True)],
    ),
]


def test_what_ranks_on_a_cpu_share_answers_nothing_about_speed() -> None:
    tables, study = base()
    for table in ("scaling", FIGURES):
        tables = edited(tables, Edit(table=table, where={"workload": "unet"}, cells={"device": "cpu"}))

    found = derive_findings(tables, study.experiments)

    assert not [finding for finding in found if finding.experiment == "scaling"]


def test_a_training_that_does_not_divide_its_batch_has_no_efficiency_to_ask_about() -> None:
    tables, study = base()
    divided = Edit(table=FIGURES, where={"workload": "unet"}, cells={"is_weak": False, "is_strong": False})

    found = derive_findings(edited(tables, divided), study.experiments)

    assert not [finding for finding in found if finding.experiment == "scaling"]


def test_the_gain_of_further_gpus_is_that_of_the_fastest_configuration() -> None:
    tables, study = base()

    found = derive_findings(tables, study.experiments)

    (pays,) = [finding for finding in found if finding.id == f"scaling_pays/{MODEL}"]
    optimized = tables.scaling_efficiency.query("precision == 'bf16'")
    assert pays.gain == optimized["base_speedup"].item()


def test_the_one_configuration_that_loses_too_much_is_named_before_the_others() -> None:
    (case,) = cases(f"scaling_pays/{MODEL}", no=[EAGER, of_two(0.8, 0.01)])

    lost, others = case.derive().statement.split("; not significantly less: ")

    assert ("bf16 80" in lost, "fp32" in lost) == (True, False)
    assert "fp32 96" in others


@pytest.mark.parametrize("has_failed", [False, True])
def test_eager_code_with_the_data_on_the_gpu_has_a_name_of_its_own_even_where_the_other_failed(
    *, has_failed: bool
) -> None:
    eager, *others = SCALING["grid"]
    scaling = {**SCALING, "grid": [eager, {**eager, "optimization": "resident"}, *others]}
    study = make_study(config={**CONFIG, "experiments": {"scaling": scaling}})
    records = [
        make_record(record.variant, status="oom") if has_failed and record.as_variant().options == "none" else record
        for record in make_records(study)
    ]

    found = derive_findings(make_tables(study, records), study.experiments)

    (pays,) = [finding for finding in found if finding.id == f"scaling_pays/{MODEL}"]
    assert pays.statement.count("eager fp32 with data on the device") == 1
    assert pays.statement.count("eager fp32") == (1 if has_failed else 2)


def harder_beside_tf32(**changes: object) -> Finding:
    """Whether faster code scales worse where eager TF32, with these changes in the study, scales worst of all."""
    eager, *others = SCALING["grid"]
    scaling = {**SCALING, "grid": [eager, {**eager, "precision": "tf32", **changes}, *others]}
    study = make_study(config={**CONFIG, "experiments": {"scaling": scaling}})
    tables = make_tables(study, make_records(study))
    for precision, efficiency, speed in (("fp32", 0.95, 100.0), ("tf32", 0.7, 200.0), ("bf16", 0.9, 300.0)):
        tables = edited(tables, of_two(efficiency, 0.005, precision=precision))
        tables = edited(tables, shared("base_throughput_per_s", speed, 1.0, precision=precision))
    return one(derive_findings(tables, study.experiments), f"scaling_harder/{MODEL}")


def test_a_configuration_that_scales_worse_than_the_slowest_and_the_fastest_is_named() -> None:
    harder = harder_beside_tf32()

    assert harder.verdict == "yes"
    assert "eager tf32" in harder.statement


def test_a_configuration_with_fewer_samples_for_each_gpu_is_not_the_one_that_scales_worst() -> None:
    harder = harder_beside_tf32(batch_per_process=4)

    assert "tf32" not in harder.statement
