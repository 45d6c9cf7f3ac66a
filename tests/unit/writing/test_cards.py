"""The first two pages: the chain of each model, and its limit card."""

import math
from typing import Any

import pandas as pd
import pytest

from gpu_report.glossary import Row
from gpu_report.tables.bundle import Tables, rows_compared_with
from gpu_report.writing.cards import (
    chain_notes,
    chains,
    first_steps,
    in_one_line,
    is_compiled,
    limit_cards,
    limit_notes,
    next_steps,
    scaled,
    scaled_notes,
)
from tests.factories import with_tables
from tests.unit.answers.editing import Edit, base, edited, figure
from tests.unit.answers.shared import DEFAULTS, base_of_shared, setting

EAGER, FAST = (
    "unet-64px-cuda-b8-w0-fp32-e3",
    "unet-64px-cuda-b8-w0-fp32-e3-fused+resident+compile",
)
SHORTER = f"{EAGER}x6"
RATES = {
    "unet-64px-cpu-b8-w0-fp32-e3x6": 10.0,
    "unet-64px-cpu-b8-w0-bf16-e3x6-channelslast": 20.0,
    EAGER: 100.0,
    SHORTER: 100.0,
    FAST: 400.0,
}


def studied() -> Tables:
    """The U-Net at 10, 100 and 400 samples/s, which its experiments say too."""
    tables, _ = base()
    for variant, rate in RATES.items():
        cells = figure("throughput_per_s", rate, rate / 1000)
        tables = edited(tables, Edit(table="variants", where={"variant": variant}, cells=cells))
        for name, frame in tables.experiments.items():
            if variant in [*frame["variant"]]:
                tables = edited(tables, Edit(table=name, where={"variant": variant}, cells=cells))
    for name, variant, ratio in (("device", SHORTER, 10.0), ("optimization", FAST, 4.0)):
        cells = figure("speedup", ratio, 0.01)
        tables = edited(tables, Edit(table=name, where={"variant": variant}, cells=cells))
    return tables


def test_the_factors_of_a_chain_multiply_to_its_total() -> None:
    (row,) = [row for row in chains(studied()) if row["model"] == "U-Net 64px"]

    assert [row[name] for name in ("cpu", "eager", "fastest")] == [10.0, 100.0, 400.0]
    assert [row["gpu_over_cpu"], row["fastest_over_eager"]] == pytest.approx([10.0, 4.0])
    assert row["fastest_over_cpu"] == pytest.approx(40.0)
    assert row["needs"] == "fused optimizer, data in GPU memory and torch.compile"
    assert "fastest 400.0 samples/s (399.6 to 400.4) 4.000×" in in_one_line(row)


def test_the_fastest_is_compared_with_the_cpus_fastest_too() -> None:
    tables = studied()
    rows = chains(tables)
    (row,) = [row for row in rows if row["model"] == "U-Net 64px"]

    assert row["over_fastest_cpu"] == pytest.approx(20.0)
    assert "U-Net 64px bf16, channels-last layout" in " ".join(chain_notes(tables, rows))


def test_a_gap_in_a_row_is_explained_below_the_table_only_where_there_is_one() -> None:
    tables = studied()
    rows = [row for row in chains(tables) if row["model"] == "U-Net 64px"]
    without = [{**rows[0], "eager": math.nan}]

    assert "–: none" not in " ".join(chain_notes(tables, rows))
    assert "–: none" in " ".join(chain_notes(tables, [*rows, *without]))


def test_a_lower_held_out_metric_with_the_fastest_is_named_below_the_table() -> None:
    tables = studied()
    surely, maybe = (
        chain_notes(changed, chains(changed))[-1]
        for lower in (figure("quality", 0.5, 0.01), figure("quality", 0.5, 0.4))
        for changed in [
            edited(tables, Edit(table="variants", where={"variant": FAST}, cells=lower))
        ]
    )

    assert not any("Lower" in note for note in chain_notes(tables, chains(tables)))
    assert "Lower held-out metric with the fastest configuration: U-Net 64px Dice" in surely
    assert "too close to call" not in surely
    assert "with batch size 8 (too close to call)" in maybe


def test_a_row_with_a_flag_that_weakens_times_is_named_below_the_table() -> None:
    tables = studied()
    assert not any("Doubtful" in note for note in chain_notes(tables, chains(tables)))

    loaded = edited(
        tables, Edit(table="variants", where={"variant": EAGER}, cells={"marks": "heavy load"})
    )

    assert "Doubtful rates and factors: U-Net 64px: others used much of the CPU." in chain_notes(
        loaded, chains(loaded)
    )


def test_the_fastest_is_compared_with_an_eager_baseline_that_trained_as_long() -> None:
    (row,) = [row for row in chains(studied()) if row["model"] == "U-Net 64px"]

    assert row["pair"][0]["variant"] == EAGER


def test_what_to_switch_on_first_is_the_step_that_gains_most_alone() -> None:
    tables = studied()
    single = EAGER + "-compile"
    cells = figure("throughput_per_s", 300.0, 0.3) | figure("speedup", 3.0, 0.01)
    for name in ("variants", "optimization"):
        tables = edited(tables, Edit(table=name, where={"variant": single}, cells=cells))

    assert first_steps(tables, chains(tables))[0] == (
        "U-Net 64px: torch.compile, 3.000× (2.990 to 3.010) alone; "
        "fastest configuration 4.000× (3.990 to 4.010)."
    )


def test_a_fastest_that_an_experiment_compares_is_named_the_largest_gain_first() -> None:
    tables = studied()
    rows = chains(tables)
    compared = [
        (row["fastest_over_eager"], row["model"])
        for row in rows
        if any(
            row["pair"][1]["variant"] == other["variant"]
            for other in rows_compared_with(tables, row["pair"][0])
        )
        and row["fastest_over_eager"] > 1
    ]

    named = [sentence.partition(":")[0] for sentence in first_steps(tables, rows[::-1])]

    assert named == [model for _, model in sorted(compared, reverse=True)]
    assert 0 < len(named) < sum(row["fastest_over_eager"] > 1 for row in rows)


def test_what_compiles_is_known_by_the_fastest_and_not_by_the_step_named_first() -> None:
    rows = chains(studied())
    compiling = [row for row in rows if row["model"] == "U-Net 64px"]

    assert is_compiled(rows)
    assert is_compiled(compiling)
    assert not is_compiled([row for row in rows if row["model"] != "U-Net 64px"])


def test_a_step_that_the_fastest_does_without_is_not_named_first() -> None:
    tables = studied()
    rates = {FAST: 50.0, f"{EAGER}-fused+resident": 400.0, f"{EAGER}-compile": 300.0}
    for variant, rate in rates.items():
        cells = figure("throughput_per_s", rate, 0.3) | figure("speedup", rate / 100, 0.01)
        for name in ("variants", "optimization"):
            tables = edited(tables, Edit(table=name, where={"variant": variant}, cells=cells))

    assert first_steps(tables, chains(tables))[0].startswith("U-Net 64px: ")
    assert "torch.compile" not in first_steps(tables, chains(tables))[0]


def test_a_chain_goes_on_to_all_gpus_with_what_they_train_fastest() -> None:
    tables = base(("cpu", "cuda", "cuda:1"))[0]

    rows = [row for row in chains(tables) if row["all_settings"]]

    assert rows
    for row in rows:
        shared = tables.variants[tables.variants["devices"] > 1]
        same = shared[shared["workload"] == row["pair"][0]["workload"]]
        assert row["on_all"] <= same["throughput_per_s"].max()
        assert "DistributedDataParallel on 2 devices" in row["all_settings"]


@pytest.mark.parametrize(("p", "chosen"), [(0.001, "bucketview"), (0.2, "channelslast")])
def test_on_all_gpus_a_setting_that_is_not_significantly_faster_leaves_the_simpler_one(
    p: float, chosen: str
) -> None:
    _, tables = base_of_shared()
    name = f"{DEFAULTS}+bucketview"
    gained = figure("speedup", 1.1, 0.01) | {"speedup_p": p}
    tables = edited(tables, setting(name, **gained))
    for optimization, rate in ((DEFAULTS, 110.0), (name, 121.0)):
        where, cells = {"optimization": optimization}, figure("throughput_per_s", rate, 0.1)
        tables = edited(tables, Edit(table="variants", where=where, cells=cells))

    (row,) = chains(tables)

    assert row["several"]["optimization"].endswith(chosen)


def test_only_eager_is_explained_below_the_table_where_a_row_says_so() -> None:
    tables = studied()
    rows = chains(tables)
    without = [row for row in rows if row["needs"] != "only eager"]

    assert "Only eager: " in " ".join(chain_notes(tables, rows))
    assert "Only eager" not in " ".join(chain_notes(tables, without))


def on_several_gpus(*, without_cpu: bool) -> Tables:
    """Tables in which no training of the U-Net on one GPU succeeded, `without_cpu` none on it."""
    tables = base(("cpu", "cuda", "cuda:1"))[0]
    fields = ["variant", "workload", "device", "devices"]
    on_one = {
        variant
        for frame in tables.experiments.values()
        for variant, workload, device, devices in frame[fields].values
        if workload == "unet" and devices == 1 and (without_cpu or device != "cpu")
    }
    frames = {"variants": tables.variants, **tables.experiments}
    for variant in on_one:
        for name, frame in frames.items():
            if variant in [*frame["variant"]]:
                edit = Edit(table=name, where={"variant": variant}, cells={"status": "failed"})
                tables = edited(tables, edit)
    return tables


def test_a_model_on_several_gpus_alone_has_the_rate_of_the_process_measured_in_turn() -> None:
    tables = on_several_gpus(without_cpu=True)
    (row,) = [row for row in chains(tables) if row["model"] == "U-Net 64px"]

    several = row["several"]["variant"]
    scaling = tables.scaling_efficiency.set_index("variant")
    assert row["eager"] == scaling.loc[row["pair"][0]["variant"], "base_throughput_per_s"]
    without = tables.scaling_efficiency.assign(base_throughput_per_s=math.nan)
    (unknown,) = [
        row
        for row in chains(with_tables(tables, scaling_efficiency=without))
        if row["model"] == "U-Net 64px"
    ]
    assert math.isnan(unknown["eager"])
    assert in_one_line(unknown).startswith("U-Net 64px: on all GPUs ")
    profiled = tables.step_categories.iloc[:1].assign(variant=several)
    (card,) = limit_cards(with_tables(tables, step_categories=profiled), [row])
    assert card["is"].startswith("batch size")
    assert card["is"].endswith("on 2 devices")


def test_the_factors_of_a_model_on_several_gpus_alone_are_of_the_rates_beside_them() -> None:
    on_cpu = {"variant": "unet-64px-cpu-b8-w0-bf16-e3x6-channelslast"}
    faster = Edit(table="variants", where=on_cpu, cells=figure("throughput_per_s", 3.0, 0.01))
    tables = edited(on_several_gpus(without_cpu=False), faster)

    (row,) = [row for row in chains(tables) if row["model"] == "U-Net 64px"]

    assert [row["devices"] for row in row["pair"]] == [2, 2]
    assert row["gpu_over_cpu"] == pytest.approx(row["eager"] / row["cpu"])
    assert row["fastest_over_eager"] == pytest.approx(row["fastest"] / row["eager"])
    assert row["fastest_over_cpu"] == pytest.approx(row["fastest"] / row["cpu"])
    assert row["over_fastest_cpu"] == pytest.approx(row["fastest"] / 3.0)


def test_a_machine_without_a_gpu_has_the_throughput_of_each_model() -> None:
    rows = chains(base(("cpu",))[0])

    assert rows
    assert all(math.isnan(row["cpu"]) and row["eager"] > 0 for row in rows)


@pytest.mark.parametrize(
    ("step_ms", "busy", "parts"),
    [
        (20.0, 0.8, "convolution 50 %, optimizer 30 %, idle 20 %"),
        (10.0, 0.4, "waiting for data 50 %, convolution 25 %, optimizer 15 %"),
    ],
    ids=["as long as a mean step", "half of a mean step"],
)
def test_a_card_has_what_a_step_consists_of_with_the_wait_of_a_few_steps_in_the_mean_one(
    step_ms: float, busy: float, parts: str
) -> None:
    tables = studied()
    kept = tables.step_categories["variant"] != FAST
    template = tables.step_categories.iloc[0].to_dict() | {"variant": FAST}
    rows = [
        {**template, "category": name, "share": share, "ms_per_step": step_ms * share}
        for name, share in {"convolution": 0.5, "optimizer": 0.3, "idle": 0.2}.items()
    ]
    changed = pd.concat([tables.step_categories[kept], pd.DataFrame(rows)])
    cells = {"data_wait_share": 0.4, "step_time_ms": step_ms}
    tables = edited(tables, Edit(table="variants", where={"variant": FAST}, cells=cells))

    cards = limit_cards(with_tables(tables, step_categories=changed), chains(tables))
    (card,) = [card for card in cards if card["variant"] == FAST]

    assert card["step_ms"] == pytest.approx(20.0)
    assert [card["busy"], card["at_most"]] == pytest.approx([busy, 1 / busy])
    assert card["parts"].replace("\u00a0", " ") == parts
    assert (card["left"] == "load data faster") == parts.startswith("waiting for data")


@pytest.mark.parametrize(
    ("rule", "idle", "left"),
    [
        ("tensor cores", 0.1, "only faster kernels"),
        ("tensor cores", 0.3, "less Python between operations"),
        ("data loader", 0.1, "not known"),
    ],
)
def test_what_no_cpu_can_answer_leaves_nothing_open_on_it(
    rule: str, idle: float, left: str
) -> None:
    tables, _ = base(("cpu",))
    (first, *_) = chains(tables)
    eager, _ = first["pair"]
    step = tables.step_categories.iloc[0].to_dict() | {"variant": eager["variant"]}
    step_ms = eager["step_time_ms"]
    parts = [
        {**step, "category": name, "share": share, "ms_per_step": step_ms * share}
        for name, share in {"convolution": 1 - idle, "idle": idle}.items()
    ]
    unanswered = [{"variant": step["variant"], "rule": rule, "reason": "it is a CPU's"}]
    changed = with_tables(
        tables,
        step_categories=pd.DataFrame(parts),
        trace_unanswered=pd.DataFrame(unanswered),
        trace_advice=tables.trace_advice.iloc[:0],
    )

    assert limit_cards(changed, [first])[0]["left"] == left


def card_of(tables: Tables, variant: str, **changes: Any) -> Row:
    """The card of a variant whose step has this `idle` share, the rest of this `category`, with
    these rules that apply or are `unanswered`, and other cells of its own.
    """
    idle, category = changes.pop("idle", 0.0), changes.pop("category", "convolution")
    template = tables.step_categories.iloc[0].to_dict() | {"variant": variant}
    parts = [
        {**template, "category": name, "share": share, "ms_per_step": share}
        for name, share in {category: 1 - idle, "idle": idle}.items()
    ]
    frames = {
        name: pd.DataFrame([{"variant": variant, "rule": rule} for rule in changes.pop(key, [])])
        for name, key in {"trace_advice": "rules", "trace_unanswered": "unanswered"}.items()
    }
    frames = {
        name: frame if len(frame) else getattr(tables, name).iloc[:0]
        for name, frame in frames.items()
    }
    shares = tables.step_shares.copy()
    shares.loc[shares["variant"] == variant, "short_share"] = changes.pop("short", 0.0)
    cells = {"data_wait_share": 0.0, "mfu": 0.5, "step_time_ms": 1000.0, **changes}
    tables = edited(tables, Edit(table="variants", where={"variant": variant}, cells=cells))
    tables = with_tables(tables, step_categories=pd.DataFrame(parts), step_shares=shares, **frames)
    (card,) = [card for card in limit_cards(tables, chains(tables)) if card["variant"] == variant]
    return card


@pytest.mark.parametrize(
    ("gain", "left"),
    [
        (2.0, "fuse kernels (torch.compile)"),
        (0.9, "torch.compile with the fastest's other options (no significant gain alone)"),
    ],
)
def test_what_was_measured_to_gain_nothing_alone_is_not_recommended(gain: float, left: str) -> None:
    cells = figure("throughput_per_s", 100 * gain, 0.1) | figure("speedup", gain, 0.001)
    where = {"variant": f"{EAGER}-compile"}
    tables = edited(studied(), Edit(table="optimization", where=where, cells=cells))

    assert card_of(tables, EAGER, rules=["short kernels"])["left"] == left


@pytest.mark.parametrize(
    ("gain", "left"), [(1.2, "load data faster"), (0.9, "fuse kernels (torch.compile)")]
)
@pytest.mark.parametrize("waits", [0.06, 0.6])
def test_more_workers_that_gained_nothing_are_not_recommended(
    gain: float, waits: float, left: str
) -> None:
    tables = studied()
    variants = tables.variants
    with_workers = variants[variants["variant"] == EAGER].assign(
        variant=f"{EAGER}-w2", workers=2, **figure("throughput_per_s", 100 * gain, 0.1)
    )
    tables = with_tables(tables, variants=pd.concat([variants, with_workers]))

    rules = ["data loader", "short kernels"]
    assert card_of(tables, EAGER, rules=rules, data_wait_share=waits)["left"] == left


def test_a_step_that_waits_for_data_whatever_the_workers_is_said_to() -> None:
    tables = studied()
    variants = tables.variants
    with_workers = variants[variants["variant"] == EAGER].assign(variant=f"{EAGER}-w2", workers=2)
    tables = with_tables(tables, variants=pd.concat([variants, with_workers]))

    card = card_of(tables, EAGER, data_wait_share=0.9, category="normalization")

    assert card["left"] == "prepare the data beforehand"


@pytest.mark.parametrize(
    ("mfu", "short", "category", "left"),
    [
        (0.02, 0.9, "recurrent", "use a larger batch"),
        (0.02, 0.9, "normalization", "fuse kernels (torch.compile)"),
        (0.02, 0.1, "normalization", "only faster kernels"),
        (0.3, 0.9, "normalization", "only faster kernels"),
    ],
)
def test_short_kernels_that_fill_a_step_are_too_little_work(
    mfu: float, short: float, category: str, left: str
) -> None:
    card = card_of(studied(), EAGER, mfu=mfu, short=short, category=category)

    assert card["left"] == left


@pytest.mark.parametrize(
    ("variant", "of_gpu", "of_training", "left"),
    [
        (FAST, 10.0, 2.0, "use tensor cores (bf16)"),
        (FAST, 1.0, 2.0, "only faster kernels"),
        (EAGER, 10.0, 2.0, "use tensor cores (bf16)"),
        (EAGER, 10.0, 0.9, "only faster kernels"),
    ],
    ids=["never tried", "a GPU without tensor cores", "bf16 was faster", "bf16 was slower"],
)
def test_a_busy_step_in_fp32_has_tensor_cores_left_to_try(
    variant: str, of_gpu: float, of_training: float, left: str
) -> None:
    where = {"variant": EAGER.replace("fp32", "bf16")}
    gained = Edit(table="precision", where=where, cells=figure("speedup", of_training, 0.001))
    tables = edited(studied(), gained)
    rates = {"fp32": 1.0, "bf16": of_gpu}
    peaks = tables.peaks.assign(value=tables.peaks["precision"].map(rates))

    card = card_of(with_tables(tables, peaks=peaks), variant, category="recurrent")

    assert card["left"] == left


def test_a_busy_step_has_a_fused_optimizer_left_to_try_unless_it_gained_nothing() -> None:
    tables = base(("cpu", "cuda", "cuda:1"))[0]
    several = next(row["several"] for row in chains(tables) if row["several"])
    where = {"variant": f"{EAGER}-fused"}
    slower = Edit(table="optimization", where=where, cells=figure("speedup", 0.9, 0.001))

    untried = card_of(tables, several["variant"], category="optimizer")
    tried = card_of(edited(studied(), slower), EAGER, category="optimizer")

    assert untried["left"] == "use a fused optimizer"
    assert tried["left"] == (
        "fused optimizer with the fastest's other options (no significant gain alone)"
    )


@pytest.mark.parametrize(
    ("data_wait", "left"),
    [(0.05, "launch less often (CUDA graphs)"), (0.4, "find out what it waits for")],
)
def test_a_gpu_that_waits_neither_for_data_nor_for_others_waits_for_launches(
    data_wait: float, left: str
) -> None:
    unanswered = ["launch-bound", "data loader"]
    card = card_of(studied(), EAGER, idle=0.66, unanswered=unanswered, data_wait_share=data_wait)

    assert card["left"] == left


@pytest.mark.parametrize(
    ("category", "idle", "left"),
    [
        ("convolution", 0.04, "only faster kernels"),
        ("convolution", 0.1, "use a larger batch"),
        ("communication", 0.1, "overlap communication"),
    ],
)
def test_what_a_shared_step_loses_in_waits_or_exchange_is_named(
    category: str, idle: float, left: str
) -> None:
    tables = base(("cpu", "cuda", "cuda:1"))[0]
    several = next(row["several"] for row in chains(tables) if row["several"])

    card = card_of(tables, several["variant"], idle=idle, category=category)

    assert card["left"] == left


def test_a_longer_step_on_several_gpus_is_divided_where_a_step_of_one_was_profiled_too() -> None:
    tables = base(("cpu", "cuda", "cuda:1"))[0]
    times_ms = {
        1: {"convolution": 4.5, "idle": 0.5},
        2: {"convolution": 5.0, "communication": 1.0, "idle": 2.0},
    }
    template = tables.step_categories.iloc[0].to_dict()
    profiled = pd.DataFrame(
        {**template, "variant": variant, "category": category, "ms_per_step": time_ms}
        for variant, devices in tables.variants[["variant", "devices"]].values
        for category, time_ms in times_ms[devices].items()
    )
    shared = {row["variant"] for row in chains(tables) for row in [row["several"]] if row}
    lost = ("longer_ms", "own_ms", "exchange_ms", "idle_ms")

    whole, half = (
        scaled(with_tables(tables, step_categories=frame))
        for frame in (profiled, profiled[profiled["variant"].isin(shared)])
    )

    assert [[row[name] for name in lost] for row in whole] == [[3.0, 0.5, 1.0, 1.5]] * len(whole)
    for row in half:
        assert row["longer_ms"] == row["step_time_ms"] - row["base_step_time_ms"]
        assert (row["exchange_ms"], math.isnan(row["own_ms"])) == (1.0, True)


def test_exchange_is_an_upper_bound_where_the_profiler_delays_launches() -> None:
    row = scaled(base(("cpu", "cuda", "cuda:1"))[0])[0]

    said = [
        len(scaled_notes([{**row, "profile_overhead": overhead, "optimization": optimization}]))
        for overhead, optimization in ((1.05, "none"), (1.4, "none"), (1.4, "graphs"))
    ]

    assert said[1] > said[0] == said[2]


def test_what_to_try_next_is_that_of_a_models_last_card_with_a_trace() -> None:
    cards = [
        {"model": "LSTM", "left": "use tensor cores (bf16)"},
        {"model": "LSTM", "left": "overlap communication"},
        {"model": "LSTM", "left": "–"},
        {"model": "LSTM", "left": "not known"},
        {"model": "U-Net", "left": "pin memory"},
    ]

    assert next_steps(cards) == ["LSTM: overlap communication", "U-Net: pin memory"]


def test_without_any_trace_there_is_no_card() -> None:
    tables = studied()

    without = with_tables(tables, step_categories=tables.step_categories.iloc[:0])
    rows = chains(tables)
    assert limit_cards(without, rows) == []
    (row, *_) = rows
    assert any(row["model"] in note for note in limit_notes([], rows))
    assert not any(row["model"] in note for note in limit_notes(limit_cards(tables, rows), rows))
