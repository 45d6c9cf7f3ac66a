from dataclasses import replace

from tests.report.synthetic import results_on


def test_the_profiled_steps_are_those_recorded_and_not_whole_trainings_of_a_custom_loop() -> None:
    machine = results_on("cpu", "cuda")
    shares = machine.tables.step_shares
    own_loops = {row["variant"] for row in machine.variants if row["begins_anew"]}
    steps = [1 if name in own_loops else 9 for name in shares["variant"]]
    assert set(steps) == {1, 9}

    assert (
        replace(
            machine, tables=replace(machine.tables, step_shares=shares.assign(steps=steps))
        ).profile_steps
        == "9"
    )


def test_ranks_on_a_cpu_share_no_gpus() -> None:
    machine = results_on("cpu", "cuda")
    variants = machine.tables.variants

    def with_two_devices_on(device: str) -> bool:
        several = variants.assign(devices=variants["device"].eq(device) + 1)
        return replace(machine, tables=replace(machine.tables, variants=several)).shares_gpus

    assert with_two_devices_on("cuda")
    assert not with_two_devices_on("cpu")


def test_figures_of_the_first_experiment_only_are_those_of_one_subject_for_each_kind() -> None:
    machine = results_on("cpu", "cuda")
    kinds = {figure.kind for figure in machine.figures}

    every, first = (machine.pictures(*kinds, first=first) for first in (False, True))

    assert len(every) == len(machine.figures) > len(first)
    assert {
        len({each.figure.subject for each in first if each.figure.kind == kind}) for kind in kinds
    } == {1}
