from tests.unit.answers.editing import Case, Edit, cases, figure

FAILED = {"status": "failed", "reason": "RuntimeError: no kernel image"}


def speedup(workload: str, value: float, spread: float = 0.0, **cells: object) -> Edit:
    return Edit(
        table="device",
        where={"workload": workload, "device": "cuda"},
        cells={**figure("speedup", value, spread), **cells},
    )


def over_fastest_cpu(value: float, spread: float = 0.0, **cells: object) -> Edit:
    return Edit(
        table="device",
        where={"workload": "unet", "device": "cuda"},
        cells={**figure("fastest_cpu_speedup", value, spread), **cells},
    )


DEVICE_CASES = [
    *cases(
        "device_faster/lstm",
        yes=[speedup("lstm", 1.3, 0.2)],
        no=[speedup("lstm", 0.7, 0.2)],
        unresolved=[speedup("lstm", 1.3, 0.4)],
        missing=[Edit(table="device", where={"workload": "lstm", "device": "cuda"}, cells=FAILED)],
    ),
    Case(
        finding="device_faster/lstm",
        verdict="yes",
        edits=[speedup("lstm", 9.0, 0.1, marks="background load")],
    ),
    Case(
        finding="device_faster/lstm",
        verdict="too close to call",
        edits=[speedup("lstm", 1.9, 0.1, marks="background load")],
    ),
    Case(
        finding="device_faster/lstm",
        verdict="too close to call",
        edits=[speedup("lstm", 9.0, float("nan"), processes=1)],
    ),
    Case(finding="device_faster", verdict="not measured", devices=("cpu",)),
]


def test_a_slower_accelerator_is_advised_against_with_the_gain_of_the_cpu() -> None:
    found = Case(finding="device_faster/lstm", verdict="no", edits=[speedup("lstm", 0.5)]).derive()

    assert found.recommendation.startswith("Train bidirectional LSTM on the CPU")
    assert found.gain == 2.0


def test_the_speedup_over_a_tuned_cpu_is_beside_that_over_the_eager_one() -> None:
    tuned = {"device": "cpu", "precision": "bf16"}
    edits = [
        speedup("unet", 20.0, 0.5),
        over_fastest_cpu(2.0, 0.2),
        Edit(table="device", where=tuned, cells=figure("throughput_per_s", 1e6, 1e3)),
    ]
    found = Case(finding="device_faster/unet_64px", verdict="yes", edits=edits).derive()

    assert "20.00 times" in found.statement
    assert "configuration, bf16, channels-last layout, the speedup is 2.0" in found.statement
    assert found.evidence[-2].label == "speedup over the fastest CPU configuration"


def test_a_cpu_that_failed_to_train_faster_leaves_the_gain_over_the_eager_one() -> None:
    tuned = Edit(table="device", where={"device": "cpu", "precision": "bf16"}, cells=FAILED)
    gpu_failed = Edit(table="device", where={"workload": "unet", "device": "cuda"}, cells=FAILED)

    gain = Case(finding="device_faster/unet_64px", verdict="yes", edits=[tuned]).derive()
    lost = Case(
        finding="device_faster/unet_64px", verdict="not measured", edits=[gpu_failed]
    ).derive()

    assert "on the CPU" in gain.statement
    assert "fastest configuration" not in gain.statement
    assert "no kernel image" in lost.statement


CLOSE = Edit(table="consistency", where={"workload": "lstm"}, cells={"difference_percent": 0.2})
FAR = Edit(
    table="consistency",
    where={"workload": "lstm", "metric": "quality", "epoch": 2},
    cells={"difference_percent": 2.5},
)
MISSING = Edit(
    table="consistency", where={"workload": "lstm"}, cells={"difference_percent": float("nan")}
)
CONSISTENCY_FAILED = Edit(
    table="device",
    where={"workload": "lstm", "device": "cuda"},
    cells={"status": "failed", "reason": "RuntimeError: no kernel image"},
)
CPU_LAST_EPOCH = {"variant": "lstm-cpu-b64-w0-fp32-e3x10", "epoch": 2}
SEEDS_ALIKE = Edit(table="convergence", where=CPU_LAST_EPOCH, cells={"quality": 0.8})
SEEDS_APART = Edit(
    table="convergence", where={**CPU_LAST_EPOCH, "repetition": 0}, cells={"quality": 0.7}
)

CONSISTENCY_FINDING = "device_consistency/lstm_default_64_cuda"
CONSISTENCY_CASES = [
    *cases(
        CONSISTENCY_FINDING,
        yes=[CLOSE],
        no=[CLOSE, FAR, SEEDS_ALIKE],
        unresolved=[CLOSE, FAR, SEEDS_APART],
        missing=[MISSING],
    ),
    Case(finding=CONSISTENCY_FINDING, verdict="not measured", edits=[CONSISTENCY_FAILED]),
    Case(finding="device_consistency", verdict="not measured", devices=("cpu",)),
]


CROSSOVER_FINDING = "crossover_crossover/cnn_small_cuda"


def crossing(**cells: object) -> Edit:
    return Edit(table="crossovers", where={"experiment": "crossover"}, cells=cells)


def flagged(**cells: object) -> Edit:
    where = {"batch_size": 16, "device": "cuda"}
    return Edit(table="crossover", where=where, cells={"marks": "background load", **cells})


EVERYWHERE_UNCLEAR = Edit(
    table="crossover", where={"device": "cuda"}, cells=figure("speedup", 1.5, 1.0)
)
CROSSOVER_CASES = [
    *cases(
        CROSSOVER_FINDING,
        yes=(),
        no=[crossing(verdict="cpu always")],
        unresolved=[EVERYWHERE_UNCLEAR, crossing(verdict="unclear")],
    ),
    Case(finding=CROSSOVER_FINDING, verdict="yes", edits=[flagged()]),
    Case(
        finding=CROSSOVER_FINDING,
        verdict="too close to call",
        edits=[EVERYWHERE_UNCLEAR, flagged()],
    ),
    Case(
        finding="crossover_crossover",
        verdict="not measured",
        edits=[crossing(experiment="another")],
    ),
]


def test_an_accelerator_that_always_wins_has_no_crossing_to_report() -> None:
    found = Case(
        finding=CROSSOVER_FINDING, verdict="yes", edits=[crossing(verdict="accelerator always")]
    ).derive()

    assert "at every batch size measured, 1 to 256" in found.statement
    assert "from batch size" not in found.recommendation


def test_where_small_batches_are_unclear_the_gpu_is_faster_from_the_smallest_clear_one_on() -> None:
    unclear = Edit(
        table="crossover",
        where={"batch_size": 1, "device": "cuda"},
        cells={"marks": "background load", **figure("speedup", 1.5, 0.1)},
    )
    clear = flagged(marks="", **figure("speedup", 3.0, 0.1))

    found = Case(finding=CROSSOVER_FINDING, verdict="yes", edits=[unclear, clear]).derive()

    assert "faster than the CPU from batch size 16 on; at batch size 1 it is too close" in (
        found.statement
    )
    assert not found.recommendation


def of_batch(batch_size: int, /, **cells: object) -> Edit:
    return Edit(table="crossover", where={"batch_size": batch_size}, cells=cells)


def test_only_rows_of_the_crossing_s_group_decide_from_which_batch_size_on() -> None:
    slower = Edit(
        table="crossover",
        where={"batch_size": 16, "device": "cuda"},
        cells=figure("speedup", 0.5, 0.1),
    )
    edits = [
        *(of_batch(size, group=f"cnn small batch {size} fp32") for size in (1, 256)),
        slower,
        of_batch(16, group="cnn small batch 16 bf16", precision="bf16"),
        crossing(group="cnn small fp32", verdict="unclear"),
    ]

    found = Case(
        finding="crossover_crossover/cnn_small_fp32_cuda", verdict="yes", edits=edits
    ).derive()

    assert [one.variant.split("-")[3] for one in found.evidence[1:]] == ["b256", "b1"]


def test_a_batch_size_with_a_row_that_is_not_faster_is_not_named() -> None:
    twin = Edit(
        table="crossover",
        where={"batch_size": 256, "device": "cuda"},
        cells=figure("speedup", 0.5, 0.1),
    )
    edits = [twin, of_batch(256, batch_size=16), crossing(verdict="unclear")]

    found = Case(finding=CROSSOVER_FINDING, verdict="too close to call", edits=edits).derive()

    assert found.verdict == "too close to call"


def test_single_batch_sizes_are_not_recommended_where_the_crossing_is() -> None:
    found = Case(finding="crossover_faster/cnn_small_batch_256", verdict="yes").derive()

    assert not found.recommendation


CASES = [*DEVICE_CASES, *CONSISTENCY_CASES, *CROSSOVER_CASES]
