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
from gpu_report.study.study import Prices, load_study
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


def test_the_default_study_measures_each_device_found() -> None:
    study = load_study(CONFIG, devices=["cpu", "cuda"])

    assert {variant.device for variant in study.experiments[0].variants} == {"cpu", "cuda"}


def test_a_second_accelerator_of_the_same_kind_is_measured_only_when_named() -> None:
    found = load_study(CONFIG, devices=["cpu", "cuda", "cuda:1"])
    named = load_study(
        changed(lambda config: config.update(devices=["cuda:1", "cpu"])),
        devices=["cpu", "cuda", "cuda:1"],
    )

    assert "cuda:1" not in {variant.device for variant in found.variants}
    assert "cuda:1" in {variant.device for variant in named.variants}


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


@pytest.mark.parametrize("nodes", [1, 2, 3, 4])
@pytest.mark.parametrize("gpus", [1, 2, 3, 4, 6, 8])
def test_the_default_study_suits_any_number_of_gpus_and_nodes(gpus: int, nodes: int) -> None:
    devices = ["cpu", *(f"cuda:{index}" if index else "cuda" for index in range(gpus))]

    study = load_study(CONFIG, devices=devices, nodes=nodes)

    by_ranks = {variant.devices for variant in study.variants if variant.has_ranks}
    by_one_process = {variant.devices for variant in study.variants if not variant.has_ranks}
    assert max(by_one_process) <= max(gpus, 2)
    assert max(by_ranks, default=1) == gpus * nodes


def test_a_strategy_on_all_devices_is_measured_on_no_fewer() -> None:
    row = {"workload": "cnn", "device": "cuda", "batch_size": 16, "epochs": 1}
    four = ("cpu", "cuda", "cuda:1", "cuda:2", "cuda:3")

    found = expanded(
        {**row, "parallelism": ["single", "ddp_all"]}, *four, axis="parallelism", baseline="single"
    )

    assert [variant.parallelism for variant in found] == ["single", "ddp4"]


def test_stages_need_no_equal_shares_of_a_batch_and_no_more_devices_than_pieces() -> None:
    row = {"workload": "unet", "size": "32px", "device": "cuda", "batch_size": 16, "epochs": 1}
    study = {**row, "parallelism": ["single", "split_all"]}

    for gpus, expected in ((6, ["single", "split6"]), (20, ["single"])):
        devices = ["cpu", "cuda", *(f"cuda:{index}" for index in range(1, gpus))]
        found = expanded(study, *devices, axis="parallelism", baseline="single")
        assert [variant.parallelism for variant in found] == expected


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


def test_a_variant_in_two_experiments_is_measured_once() -> None:
    study = load_study(CONFIG, devices=["cpu"])
    in_experiments = [
        variant for experiment in study.experiments for variant in experiment.variants
    ]

    assert len(study.variants) == len(set(in_experiments)) < len(in_experiments)


def test_the_tiny_study_shares_no_variant_with_the_default_one() -> None:
    default, tiny = (
        load_study(read_config(CONFIGS / f"{name}.yaml"), devices=["cpu"])
        for name in ("study", "ci")
    )

    assert not set(default.variants) & set(tiny.variants)


def test_the_tiny_study_asks_all_that_the_default_one_asks_but_what_is_about_accelerators() -> None:
    default, tiny = (
        load_study(read_config(CONFIGS / f"{name}.yaml"), devices=["cpu"])
        for name in ("study", "ci")
    )
    about_accelerators = {"crossover", "frontier"}

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


def test_an_experiment_without_variants_is_still_in_the_study() -> None:
    study = load_study(CONFIG, devices=["cpu"])

    assert {experiment.name for experiment in study.experiments if not experiment.variants} >= {
        "precision",
        "frontier",
    }


def test_on_cpu_shortens_the_epochs_of_the_cpu_alone() -> None:
    cpu, cuda = expanded(
        {"epochs": 5, "on_cpu": {"epochs": 2, "steps_per_epoch": 3}}, "cpu", "cuda"
    )

    assert (cpu.epochs, cpu.steps_per_epoch) == (2, 3)
    assert (cuda.epochs, cuda.steps_per_epoch) == (5, None)


def test_a_list_of_precisions_is_multiplied_out() -> None:
    variants = expanded({"precision": ["fp32", "bf16"], "batch_size": [8, 16]}, "cpu")

    assert {(variant.batch_size, variant.precision) for variant in variants} == {
        (8, "fp32"),
        (8, "bf16"),
        (16, "fp32"),
        (16, "bf16"),
    }


def test_optimizations_set_workers_parts_and_options() -> None:
    variants = expanded(
        {"optimization": ["none", "accumulate2+checkpoint", "workers4"]},
        "cpu",
        axis="optimization",
        baseline="none",
    )

    assert [(variant.workers, variant.accumulation, variant.options) for variant in variants] == [
        (0, 1, "none"),
        (0, 2, "checkpoint"),
        (4, 1, "none"),
    ]


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


def test_prices_that_are_not_given_are_left_out_of_account() -> None:
    config = changed(lambda config: config.pop("prices"))

    assert load_study(config, devices=["cpu"]).prices == Prices(
        currency="EUR", per_device_hour=None, per_kwh=None
    )
    assert load_study(CONFIG, devices=["cpu"]).prices.per_kwh == CONFIG["prices"]["per_kwh"]


def test_a_variant_that_is_not_in_the_study_is_answered_with_those_that_are() -> None:
    study = load_study(CONFIG, devices=["cpu"])

    with pytest.raises(ConfigError, match=study.variants[0].slug):
        study.variant("unet-cpu-b3-w0-fp32-e2")


BAD = {
    "speling: unknown key; allowed here: name, title": lambda config: config.update(speling=1),
    r"batch_size: 0 is not allowed; use 1 or more": lambda config: grid(
        config, "batch_size"
    ).update(batch_size=0),
    r"batch_size\[1\]: 0 is not allowed": lambda config: grid(config, "batch_size").update(
        batch_size=[16, 0]
    ),
    r"grid\[0\].workload: 'resnet' does not exist; use one of unet": lambda config: grid(
        config, "device"
    ).update(workload="resnet"),
    "workloads.resnet: unknown workload; use one of unet, lstm, cnn, transformer": lambda config: (
        config["workloads"].update(resnet={})
    ),
    "device 'cuda' is not present on this machine; use one of: cpu": lambda config: config.update(
        devices=["cuda"]
    ),
    r"grid\[0\].device: device 'mps' is not present": lambda config: grid(config, "device").update(
        device="mps"
    ),
    "cnn has no size 'huge'; use one of small, medium, large": lambda config: grid(
        config, "complexity"
    ).update(size="huge"),
    "repetitions: 1 is not allowed; use 3 or more": lambda config: config["protocol"].update(
        repetitions=1
    ),
    "epochs: 0 is not allowed; use 1 or more": lambda config: grid(config, "device").update(
        epochs=0
    ),
    "title: missing": lambda config: config.pop("title"),
    "there is no module 'nowhere.to_be'": lambda config: config["workloads"].update(
        mine={"class": "nowhere.to_be:Net"}
    ),
    "class: 'nowhere' is not allowed": lambda config: config["workloads"].update(
        mine={"class": "nowhere"}
    ),
    "axis: 'colour' is not allowed; use one of: workload, size": lambda config: config[
        "experiments"
    ]["device"].update(axis="colour"),
    r"grid\[0\]: asks for 10201 configurations, of at most 1000 in a study": lambda config: grid(
        config, "batch_size"
    ).update(batch_size=list(range(1, 102)), workers=list(range(101))),
    "they ask for more than 1000 configurations": lambda config: [
        grid(config, name).update(batch_size=list(range(1, 601)))
        for name in ("batch_size", "device")
    ],
    r"grid\[2\]: with it the experiment asks for more than 1000 configurations": lambda config: (
        config["experiments"]["batch_size"].update(
            grid=[
                {**grid(config, "batch_size"), "batch_size": list(range(1, 501)), "seed": n}
                for n in range(3)
            ]
        )
    ),
    "workloads.cnn.train_samples: it has more than 15 digits": lambda config: config[
        "workloads"
    ].update(cnn={"train_samples": 16**5000}),
    "there is no module '__main__'": lambda config: config["workloads"].update(
        mine={"class": "__main__:Net"}
    ),
    r"batch_size\[0\]: \[1, 1, .*\.\.\.\] is not allowed": lambda config: grid(
        config, "batch_size"
    ).update(batch_size=[[1] * 9000]),
    "baseline: 17 is not among its values of batch_size: 16, 64": lambda config: config[
        "experiments"
    ]["batch_size"].update(baseline=17),
    "target: 'high' is not allowed": lambda config: config["experiments"]["batch_size"].update(
        target="high"
    ),
    "experiments.7: the key 7 is not text": lambda config: config["experiments"].update(
        {7: config["experiments"]["device"]}
    ),
    r"epochs: 2.0 is not allowed; use a value of type integer": lambda config: grid(
        config, "device"
    ).update(epochs=2.0),
    "learning_rate: nan is not allowed": lambda config: config["workloads"]["lstm"].update(
        learning_rate=float("nan")
    ),
    r"grid\[0\].optimization: workers is given too; say all of it in optimization": lambda config: (
        grid(config, "workers").update(optimization="pinned")
    ),
    r"grid\[0\].ladder: optimization is given too": lambda config: grid(config, "memory").update(
        ladder=["pinned"]
    ),
    r"memory.grid\[0\].optimization: 'turbo' in 'turbo' is unknown": lambda config: grid(
        config, "memory"
    ).update(optimization=["none", "turbo"]),
    r"ladder: 'workers0': give workers once, with a number": lambda config: grid(
        config, "optimization"
    ).update(ladder=["workers0"]),
    r"grid\[0\]: options: pinned needs an accelerator; with device: cpu": lambda config: grid(
        config, "device"
    ).update(optimization="pinned"),
    r"grid\[0\]: accumulation: 3 parts of equal size do not make a batch of 4": lambda config: grid(
        config, "device"
    ).update(optimization="accumulate3"),
    r"linear_regression.grid\[0\]: options: resident is not allowed.*; use one of none, "
    "compile": lambda config: grid(config, "linear_regression").update(
        optimization=["none", "resident"]
    ),
    r"linear_regression.grid\[0\]: workers: 4 is not allowed.*; leave it at 0": lambda config: grid(
        config, "linear_regression"
    ).update(optimization=["none", "workers4"]),
    r"linear_regression.grid\[0\]: steps_per_epoch: missing; .* iterations over the points; give "
    r"it": lambda config: grid(config, "linear_regression").pop("steps_per_epoch"),
    r"grid\[0\]: options: openmp is a custom training loop that unet does not have; "
    "leave it out": lambda config: grid(config, "device").update(optimization="openmp"),
    r"precision\[1\]: 'fp8' is not allowed; use one of: fp32, tf32": lambda config: grid(
        config, "precision"
    ).update(precision=["fp32", "fp8"]),
    "on_cpu.batch_size: unknown key; allowed here: epochs, steps_per_epoch": lambda config: grid(
        config, "device"
    ).update(on_cpu={"batch_size": 2}),
    "needs_accelerator: 'yes' is not allowed": lambda config: grid(config, "device").update(
        needs_accelerator="yes"
    ),
    "prices.per_kwh: 0 is not allowed; use more than 0": lambda config: config["prices"].update(
        per_kwh=0
    ),
    "prices.currency: 'euro' is not allowed": lambda config: config["prices"].update(
        currency="euro"
    ),
    r"machines\[0\]: 'My Machine' is not allowed": lambda config: config.update(
        machines=["My Machine"]
    ),
    "name: 'tiny.n' is not allowed; it must match": lambda config: config.update(name="tiny\n"),
    f"name: '{'a' * 10}.*' is not allowed; use at most 100 characters": lambda config: (
        config.update(name="a" * 101)
    ),
    "experiments: 'device.n' is not allowed; it must match": lambda config: config[
        "experiments"
    ].update({"device\n": config["experiments"].pop("device")}),
    "experiments: 'd+[.]*d+' is not allowed; use at most 100": lambda config: config[
        "experiments"
    ].update({"d" * 4000: config["experiments"].pop("device")}),
    "workloads: 'mine.n' is not allowed; it must match": lambda config: config["workloads"].update(
        {"mine\n": {"class": "json:JSONDecoder"}}
    ),
    "class: 'json:JSONDecoder.n' is not allowed; it must match": lambda config: config[
        "workloads"
    ].update(mine={"class": "json:JSONDecoder\n"}),
    r"machines\[0\]: 'here.n' is not allowed": lambda config: config.update(machines=["here\n"]),
    r"devices\[0\]: 'cpu.n' is not allowed": lambda config: config.update(devices=["cpu\n"]),
    r"title: it holds the control character '.x00'; remove it": lambda config: config.update(
        title="A\0study"
    ),
    r"question: it holds the control character '.x1b'": lambda config: config["experiments"][
        "device"
    ].update(question="Which\x1b[2J?"),
    "epochs: 1000000000 is not allowed; use 100000 or less": lambda config: grid(
        config, "device"
    ).update(epochs=1_000_000_000),
    "on_cpu.epochs: 1000000000 is not allowed; use 100000 or less": lambda config: grid(
        config, "device"
    ).update(on_cpu={"epochs": 1_000_000_000}),
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


def test_an_alias_may_name_what_several_experiments_share(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("a: &a [1, 2]\nb: *a\nc: {d: *a}", "utf-8")

    assert read_config(tmp_path / "study.yaml") == {"a": [1, 2], "b": [1, 2], "c": {"d": [1, 2]}}


@pytest.mark.parametrize(
    "content",
    [
        "title: 2026-13-45",
        "title: !!int abc",
        "title: !!bool abc",
        "title: !!timestamp abc",
        'title: "\\UFFFFFFFF"',
        f"title: {'9' * 5000}",
    ],
)
def test_what_yaml_cannot_make_a_value_of_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "study.yaml").write_text(content, "utf-8")

    with pytest.raises(ConfigError) as caught:
        read_config(tmp_path / "study.yaml")

    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "content", ["title: one\ntitle: two", "experiments:\n  {batch_size: {}, batch_size: {}}"]
)
def test_a_key_that_is_there_twice_is_named_with_its_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "study.yaml").write_text(content, "utf-8")

    with pytest.raises(ConfigError, match=r"study.yaml, line 2: the key (title|batch_size) "):
        read_config(tmp_path / "study.yaml")


def test_keys_that_are_merged_may_be_there_again(tmp_path: Path) -> None:
    lines = [
        "base: &base {a: 1}",
        "x: {d: &d {<<: *base, a: 2}}",
        "third: {<<: *d, <<: *base, b: 3}",
    ]
    (tmp_path / "study.yaml").write_text("\n".join(lines), "utf-8")

    assert {*read_config(tmp_path / "study.yaml")["third"]} == {"a", "b"}


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


def test_a_class_of_ones_own_may_have_the_name_of_one_of_ours() -> None:
    config = changed(
        lambda config: config["workloads"].update(unet={"class": "gpu_report.errors:ConfigError"})
    )
    grid(config, "device").update(workload="unet", size="any_size")

    workload = load_study(config, devices=["cpu"]).workloads["unet"]

    assert workload.built_in is None


def test_a_class_of_ones_own_is_refused_no_option_under_any_name() -> None:
    own = {"class": "gpu_report.errors:ConfigError"}
    config = changed(lambda config: config["workloads"].update(linear_regression=own))
    grid(config, "linear_regression").update(optimization=["none", "resident", "openmp"])
    grid(config, "linear_regression").pop("steps_per_epoch")

    variants = load_study(config, devices=["cpu"]).variants

    assert {"none", "resident", "openmp"} == {
        each.options for each in variants if each.steps_per_epoch is None
    }


def test_only_our_own_workload_of_image_files_has_them_written() -> None:
    own = {"class": "gpu_report.errors:ConfigError", "folder": "my/data", "image_px": 64}
    config = changed(lambda config: config["workloads"].update(own=own))
    grid(config, "device").update(workload="own", size="any_size")

    workloads = load_study(config, devices=["cpu"]).workloads

    assert not workloads["own"].reads_image_files
    assert workloads["image_files"].reads_image_files


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
