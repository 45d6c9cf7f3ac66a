import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.errors import ConfigError
from gpu_report.study.config import read_config
from gpu_report.study.options import ladder
from gpu_report.study.study import load_study
from gpu_report.study.variant import Variant
from tests import searches

CONFIGS = Path(__file__).parents[3] / "config"
CONFIG = read_config(CONFIGS / "study.yaml")


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    config = copy.deepcopy(CONFIG)
    change(config)
    return config


def grid(config: dict[str, Any], experiment: str) -> dict[str, Any]:
    """Its first row, which every machine is to expand."""
    row: dict[str, Any] = config["experiments"][experiment]["grid"][0]
    row.pop("needs_accelerator", None)
    return row


@pytest.mark.parametrize(
    ("accelerators", "linked"), [([], []), (["cuda", "cuda:1"], ["cuda", "cuda:1"])]
)
def test_accelerators_that_share_a_training_are_linked(
    accelerators: list[str], linked: list[str]
) -> None:
    row = {
        "workload": "cnn",
        "size": "medium",
        "batch_size": 64,
        "epochs": 3,
        "parallelism": ["single", "ddp"],
    }
    config = changed(lambda config: config["experiments"]["device"]["grid"].append(row))

    assert load_study(config, devices=["cpu", *accelerators]).linked_devices == linked


def test_a_record_of_gpt2_on_several_gpus_serves_both_studies_that_ask_for_it() -> None:
    asked = {
        name: {
            each.slug
            for experiment in load_study(
                read_config(CONFIGS / f"{name}.yaml"), devices=["cpu", "cuda", "cuda:1"]
            ).experiments
            if experiment.name == "scaling"
            for each in experiment.variants
        }
        for name in ("study", "language_models")
    }

    assert asked["language_models"] < asked["study"]


@pytest.mark.parametrize("nodes", [1, 2, 3, 4])
@pytest.mark.parametrize("gpus", [1, 2, 3, 4, 6, 8])
def test_the_default_study_suits_any_number_of_gpus_and_nodes(gpus: int, nodes: int) -> None:
    devices = ["cpu", *(f"cuda:{index}" if index else "cuda" for index in range(gpus))]

    study = load_study(CONFIG, devices=devices, nodes=nodes)

    by_ranks = {variant.devices for variant in study.variants if variant.has_ranks}
    by_one_process = {variant.devices for variant in study.variants if not variant.has_ranks}
    assert max(by_one_process) <= max(gpus, 2)
    assert max(by_ranks, default=1) == gpus * nodes


def test_devices_that_a_batch_cannot_be_shared_by_are_left_out_unless_they_are_named() -> None:
    row = {"workload": "cnn", "device": "cuda", "batch_size": 16, "epochs": 1}
    three = ("cpu", "cuda", "cuda:1", "cuda:2")

    found = expanded({**row, "parallelism": "ddp"}, *three, axis="parallelism", baseline="ddp2")

    assert [variant.devices for variant in found] == [2]
    assert not expanded(
        {**row, "parallelism": "ddp_all"}, *three, axis="parallelism", baseline="ddp3"
    )
    with pytest.raises(ConfigError, match="16 samples cannot be shared equally by 3 devices"):
        expanded(
            {**row, "parallelism": ["ddp2", "ddp3"]}, *three, axis="parallelism", baseline="ddp2"
        )


def test_the_tiny_study_asks_all_that_the_default_one_asks_but_what_is_about_accelerators() -> None:
    default, tiny = (
        load_study(read_config(CONFIGS / f"{name}.yaml"), devices=["cpu"])
        for name in ("study", "ci")
    )
    about_accelerators = {"crossover", "frontier", "images_per_second"}

    assert all(experiment.variants or experiment.searches for experiment in tiny.experiments)
    assert {one.name for one in tiny.experiments} == {
        one.name for one in default.experiments
    } - about_accelerators


def expanded(
    row: dict[str, Any], *devices: str, axis: str = "batch_size", baseline: Any = 8
) -> list[Variant]:
    """The variants of an experiment that has this row alone."""
    row = {"workload": "cnn", "size": "small", "batch_size": 8, "epochs": 2, **row}
    experiment = {"question": "?", "axis": axis, "baseline": baseline, "grid": [row]}
    config = changed(lambda config: config.update(experiments={"mine": experiment}))
    return list(load_study(config, devices=devices).variants)


def test_a_row_that_needs_an_accelerator_is_left_out_where_there_is_none() -> None:
    row = {"needs_accelerator": True}

    assert expanded(row, "cpu") == []
    assert {variant.device for variant in expanded(row, "cpu", "cuda")} == {"cpu", "cuda"}


def test_a_row_that_needs_bf16_on_the_cpu_is_left_out_where_that_does_not_compute_in_it() -> None:
    def add(config: dict[str, Any]) -> None:
        row = {"workload": "lstm", "batch_size": 8, "epochs": 2, "precision": "bf16"}
        config["experiments"]["device"]["grid"].append({**row, "needs_bf16_on_cpu": True})

    config = changed(add)
    counts = [
        sum(
            each.precision == "bf16"
            for each in load_study(config, devices=["cpu"], has_bf16=has_bf16).variants
        )
        for has_bf16 in (True, False)
    ]

    assert counts == [1, 0]


def test_a_ladder_has_variants_that_differ_in_their_optimization_alone() -> None:
    variants = expanded(
        {"device": "cuda", "ladder": ["workers4", "pinned", "resident"]},
        "cuda",
        axis="optimization",
        baseline="none",
    )

    assert [variant.optimization for variant in variants] == ladder(
        ["workers4", "pinned", "resident"]
    )
    assert {replace(variant, workers=0, options="none") for variant in variants} == {variants[0]}


def test_a_ladder_through_precisions_leads_from_eager_fp32_and_is_one_group() -> None:
    row = {"workload": "cnn", "size": "small", "batch_size": 8, "epochs": 2}
    grid = [{**row, "device": "cuda", "ladder": ["bf16", "fused", "compile"]}]
    experiment = {"question": "?", "axis": "optimization", "baseline": "none", "grid": grid}
    config = changed(lambda config: config.update(experiments={"mine": experiment}))

    (found,) = load_study(config, devices=["cuda"]).experiments

    assert [*map(found.value_of, found.variants)] == ladder(["bf16", "fused", "compile"])
    assert (found.variants[0].precision, found.variants[1].precision) == ("fp32", "bf16")
    assert len({each.fields_without(*found.compared_fields) for each in found.variants}) == 1


@pytest.mark.parametrize("axis", ["optimization", "device"])
def test_a_precision_beside_a_ladder_that_names_one_is_refused(axis: str) -> None:
    with pytest.raises(ConfigError, match=r"precision: .* names a precision"):
        expanded({"ladder": ["tf32", "fused"], "precision": "bf16"}, "cuda", axis=axis)


def test_a_variant_that_is_not_in_the_study_is_answered_with_those_that_are() -> None:
    study = load_study(CONFIG, devices=["cpu"])

    with pytest.raises(ConfigError, match=study.variants[0].slug):
        study.variant("unet-cpu-b3-w0-fp32-e2")


BAD = {
    "title: missing": lambda config: config.pop("title"),
    "workloads.cnn.train_samples: it has more than 15 digits": lambda config: config[
        "workloads"
    ].update(cnn={"train_samples": 16**5000}),
    "they ask for more than 1000 configurations": lambda config: [
        grid(config, name).update(batch_size=list(range(1, 601)))
        for name in ("batch_size", "device")
    ],
    "speling: unknown key; allowed here: name, title": lambda config: config.update(speling=1),
    r"batch_size: 0 is not allowed; use 1 or more": lambda config: grid(
        config, "batch_size"
    ).update(batch_size=0),
    "workloads.resnet: unknown workload; use one of unet, lstm, cnn, transformer": lambda config: (
        config["workloads"].update(resnet={})
    ),
    "device 'cuda' is not present on this machine; use one of: cpu": lambda config: config.update(
        devices=["cuda"]
    ),
    "cnn has no size 'huge'; use one of small, medium, large": lambda config: grid(
        config, "complexity"
    ).update(size="huge"),
    "repetitions: 1 is not allowed; use 3 or more": lambda config: config["protocol"].update(
        repetitions=1
    ),
    "there is no module 'nowhere.to_be'": lambda config: config["workloads"].update(
        mine={"class": "nowhere.to_be:Net"}
    ),
    r"grid\[0\]: asks for 10201 configurations, of at most 1000 in a study": lambda config: grid(
        config, "batch_size"
    ).update(batch_size=list(range(1, 102)), workers=list(range(101))),
    "they ask for more than 1000 configurations; divide the study": lambda config: config[
        "experiments"
    ]["batch_size"].update(
        grid=[
            {**grid(config, "batch_size"), "batch_size": list(range(1, 501)), "seed": n}
            for n in range(3)
        ]
    ),
    "there is no module '__main__'": lambda config: config["workloads"].update(
        mine={"class": "__main__:Net"}
    ),
    "baseline: 17 is not among its values of batch_size: 16, 64": lambda config: config[
        "experiments"
    ]["batch_size"].update(baseline=17),
    "experiments.7: the key 7 is not text": lambda config: config["experiments"].update(
        {7: config["experiments"]["device"]}
    ),
    r"grid\[0\].optimization: workers is given too; say all of it in optimization": lambda config: (
        grid(config, "workers").update(optimization="pinned")
    ),
    r"memory.grid\[0\].optimization: 'turbo' in 'turbo' is unknown": lambda config: grid(
        config, "memory"
    ).update(optimization=["none", "turbo"]),
    "prices.per_kwh: 0 is not allowed; use more than 0": lambda config: config["prices"].update(
        per_kwh=0
    ),
    r"machines\[0\]: 'My Machine' is not allowed": lambda config: config.update(
        machines=["My Machine"]
    ),
    r"leave_out\[0\]: 'summary' is not allowed; use one of: limit_cards, ": lambda config: (
        config.update(leave_out=["summary"])
    ),
    "name: 'tiny.n' is not allowed; it must match": lambda config: config.update(name="tiny\n"),
    f"name: '{'a' * 10}.*' is not allowed; use at most 100 characters": lambda config: (
        config.update(name="a" * 101)
    ),
    r"title: it holds the control character '.x00'; remove it": lambda config: config.update(
        title="A\0study"
    ),
    "epochs: 1000000000 is not allowed; use 100000 or less": lambda config: grid(
        config, "device"
    ).update(epochs=1_000_000_000),
    "experiments.variants: the name is taken": lambda config: config["experiments"].update(
        variants=config["experiments"].pop("device")
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_a_mistake_in_the_configuration_is_one_line_that_names_key_value_and_remedy(
    message: str,
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load_study(changed(BAD[message]), devices=["cpu"])

    assert "\n" not in str(caught.value)


def test_a_list_that_holds_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("a: &a [*a]", "utf-8")

    with pytest.raises(ConfigError, match="nested too deep"):
        load_study(read_config(tmp_path / "study.yaml"), devices=["cpu"])


@pytest.mark.parametrize(
    ("first", "repeat"), [("[x]", "[{}]"), ("{x: 1}", "{{<<: [{}]}}")], ids=["listed", "merged"]
)
def test_aliases_of_aliases_that_name_more_than_any_study_holds_are_refused(
    first: str, repeat: str, tmp_path: Path
) -> None:
    lines = [f"a0: &a0 {first}"]
    for level in range(1, 30):
        lines.append(f"a{level}: &a{level} {repeat.format(', '.join([f'*a{level - 1}'] * 9))}")
    (tmp_path / "study.yaml").write_text("\n".join(lines), "utf-8")

    with pytest.raises(ConfigError, match="more than 100000 values, each alias"):
        read_config(tmp_path / "study.yaml")


@pytest.mark.parametrize(
    "content", ["title: one\ntitle: two", "experiments:\n  {batch_size: {}, batch_size: {}}"]
)
def test_a_key_that_is_there_twice_is_named_with_its_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "study.yaml").write_text(content, "utf-8")

    with pytest.raises(ConfigError, match=r"study.yaml, line 2: the key (title|batch_size) "):
        read_config(tmp_path / "study.yaml")


@given(
    content=st.one_of(
        st.binary(max_size=200),
        st.text(alphabet="[]{}:,-&*!|>'\"#a1 \n\t", max_size=200).map(str.encode),
        st.tuples(
            st.sampled_from([b"[", b"{a: ", b"- ", b"a: [", b"? "]), st.integers(1, 5000)
        ).map(lambda drawn: drawn[0] * drawn[1]),
    )
)
def test_whatever_a_file_holds_it_is_a_study_or_one_line_of_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "hostile.yaml"
    path.write_bytes(content)

    with pytest.raises(ConfigError) as caught:
        load_study(read_config(path), devices=["cpu"])

    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_a_workload_of_ones_own_gets_its_settings_as_keyword_arguments() -> None:
    own = {"class": "gpu_report.errors:ConfigError", "width": 3}
    config = changed(lambda config: config["workloads"].update(own=own))
    grid(config, "device")["workload"] = "own"
    grid(config, "device")["size"] = "any_size"

    workload = load_study(config, devices=["cpu"]).workloads["own"]

    assert (workload.class_path, dict(workload.settings)) == (
        "gpu_report.errors:ConfigError",
        {"width": 3},
    )


def test_an_experiment_alone_keeps_its_own_variants_and_one_that_has_none_is_refused() -> None:
    study = load_study(CONFIG, devices=["cpu"])

    alone = study.alone("batch_size")

    assert [experiment.name for experiment in alone.experiments] == ["batch_size"]
    assert (
        alone.variants
        == next(each for each in study.experiments if each.name == "batch_size").variants
    )
    with pytest.raises(
        ConfigError, match=r"experiments\.crossover: the machine shown has no configuration of it"
    ):
        study.alone("crossover")


def test_a_report_can_be_about_an_experiment_that_trains_and_about_no_search() -> None:
    study, searching = (
        load_study(CONFIG, devices=["cpu"]),
        load_study(searches.CONFIG, devices=["cpu"]),
    )

    assert study.reported_alone("batch_size") == study.alone("batch_size")
    assert searching.alone("batch_search").searches
    with pytest.raises(
        ConfigError,
        match=r"^experiments\.batch_search: it searches .*; build report/gpu_report\.pdf",
    ):
        searching.reported_alone("batch_search")


@pytest.mark.parametrize(
    "content",
    [
        "title: 2026-13-45",
        "title: !!int abc",
        f"title: {'9' * 5000}",
    ],
)
def test_what_yaml_cannot_make_a_value_of_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "study.yaml").write_text(content, "utf-8")

    with pytest.raises(ConfigError) as caught:
        read_config(tmp_path / "study.yaml")

    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_sentinels_are_expanded_as_a_grid_is_and_measured_in_less_time() -> None:
    rows = [
        {"workload": "cnn", "size": "small", "batch_size": [8, 16], "epochs": 1, "device": "cpu"},
        {"workload": "lstm", "batch_size": 8, "epochs": 1, "needs_accelerator": True},
    ]
    config = changed(lambda config: config.update(sentinels=rows))

    study = load_study(config, devices=["cpu"])

    assert [each.variant.batch_size for each in study.sentinels] == [8, 16]
    assert {each.protocol.repetitions for each in study.sentinels} == {2}
    assert study.alone("batch_size").sentinels == ()


def test_a_mistake_in_a_sentinel_is_named() -> None:
    config = changed(
        lambda config: config.update(sentinels=[{"workload": "none", "batch_size": 8, "epochs": 1}])
    )

    with pytest.raises(ConfigError, match=r"sentinels\[0\]\.workload: 'none' does not exist"):
        load_study(config, devices=["cpu"])
