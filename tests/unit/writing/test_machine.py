from tests.report.synthetic import results_on


def test_a_machine_without_accelerator_was_not_watched() -> None:
    machine = results_on("cpu")

    assert machine.is_calibrated
    assert machine.watched == []
    assert machine.sampling == ""


def test_each_variant_with_numbers_is_there_once_in_the_order_of_the_experiments() -> None:
    machine = results_on("cpu", "cuda")

    order = [row["variant"] for experiment in machine.experiments for row in machine.rows_of(experiment.name)]
    measured = {row["variant"] for row in machine.measured}
    assert [row["variant"] for row in machine.in_order] == [each for each in dict.fromkeys(order) if each in measured]


def test_an_experiment_without_variants_on_the_machine_has_no_rows() -> None:
    assert results_on("cpu").rows_of("precision") == ()


def test_how_often_the_driver_was_asked_is_beside_what_it_cost() -> None:
    sampling = results_on("cpu", "cuda").sampling

    assert sampling.startswith("every ")
    assert "; each query took " in sampling


def test_figures_of_the_first_experiment_only_are_those_of_one_subject_for_each_kind() -> None:
    machine = results_on("cpu", "cuda")
    kinds = {figure.kind for figure in machine.figures}

    every, first = (machine.pictures(*kinds, first=first) for first in (False, True))

    assert len(every) == len(machine.figures) > len(first)
    assert {len({each.figure.subject for each in first if each.figure.kind == kind}) for kind in kinds} == {1}
