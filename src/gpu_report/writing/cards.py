"""The first two pages: how fast each model trains on the CPU, on the GPU and at best, with factors
that multiply, and a limit card for each: what its step consists of and what is left to gain.

eager_and_fastest -> a row per model of the table CHAIN -> one or two of the table LIMIT_CARDS
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from gpu_report.answers.estimate import is_share
from gpu_report.glossary import (
    METRICS,
    QUALITY_TOLERANCE,
    TOKENS,
    Metric,
    Row,
    american,
    capitalized,
)
from gpu_report.printing.number_format import count
from gpu_report.study.options import NO_OPTIONS, is_bound, option_names
from gpu_report.study.strategies import SINGLE
from gpu_report.tables.bundle import (
    Tables,
    alike,
    best_of_each,
    eager_and_fastest,
    fastest_of,
    gain_over,
    greatest_step,
    grouped,
    rows_compared_with,
    rows_of,
    steps_from_eager,
    summary_in,
    with_variants,
)
from gpu_report.tables.marks import WEAKENING
from gpu_report.tables.statistics import NOT_MEASURED, SIGNIFICANCE, difference_of_means, holm
from gpu_report.tables.traces import COMMUNICATION, IDLE_TIME
from gpu_report.traces.advice import ADVICE_OF
from gpu_report.words import (
    configuration_in_words,
    execution_in_words,
    flags_of,
    in_words,
    model_cell,
    title_cell,
)
from gpu_report.writing.table import Text, metric

if TYPE_CHECKING:
    import pandas as pd

CHAIN: Final = (
    Text("model", width=0.18),
    Text("fastest configuration", "needs", width=0.36, longest=200),
    metric("cpu", "CPU", "samples/s"),
    metric("gpu_over_cpu", "GPU over CPU", "ratio"),
    metric("eager", "eager", "samples/s"),
    metric("fastest_over_eager", "fastest over eager", "ratio"),
    metric("fastest", "fastest", "samples/s"),
    metric("fastest_over_cpu", "fastest over CPU", "ratio"),
    metric("over_fastest_cpu", "over fastest CPU", "ratio"),
    metric("on_all", "on all GPUs", "samples/s"),
)
# Of several GPUs, whose step is longer than that of one; rows of the section's table have the times
# of a step in place of those by which it is longer.
STEP_PARTS: Final = (
    metric("own_ms", "computing and copying", "ms"),
    metric("exchange_ms", "exchange", "ms"),
    metric("idle_ms", "idle or waiting", "ms"),
)
SCALED: Final = (
    Text("model", width=0.16),
    Text("code", width=0.14),
    Text("GPUs", "devices", is_number=True),
    metric("base_speedup"),
    metric("weak_efficiency", "efficiency", "share"),
    metric("longer_ms", "longer step", "ms"),
    *STEP_PARTS,
)
_SCALED_NOTE: Final = (
    "Longer step: the increase over the step on one GPU, in total and by part. Computing and "
    "copying: kernels and copies on the GPU, except communication; exchange: communication while "
    "nothing else runs, without waits; idle or waiting: the GPU waits for the host or for another."
)
_LENGTHENED: Final = 1.1
"""Profiled over timed step from where on launches are late enough to expose communication that is
hidden without the profiler. Those of a CUDA graph are not late.
"""
LIMIT_CARDS: Final = (
    Text("configuration", "is", width=0.26, longest=200),
    Text("largest categories", "parts", width=0.32, longest=200),
    Text("try next", "left", width=0.18, longest=200),
    metric("step_ms", "step", "ms"),
    metric("busy", "busy", "share"),
    metric("at_most", "if never idle", "ratio"),
    metric("mfu", "MFU", "share"),
    metric("of_peak", "of measured peak", "share"),
    metric("preparation_cold_s", "to start, s", "number"),
)
# Of what to do, which every format of the report has.
DECISIONS: Final = (
    Text("symptom", width=0.2),
    Text("action", width=0.65, longest=400),
    metric("gain", "gain", "ratio"),
)
_NOT_KNOWN: Final = "not known"
NO_STEP: Final = "–"
"""Where no trace shows a step that can be trusted."""
MOST_CATEGORIES: Final = 3
LEAST_SHARE: Final = 0.01
"""Of a step, for a category to be named."""
# Of the mean step, beyond the median step: a smaller last batch makes such a rest too.
LEAST_REST: Final = 0.1
WAIT_FOR_DATA: Final = "waiting for data"
WAITS_FOR_DATA: Final = 0.5
"""Share of the timed epochs spent waiting for data, from which on to load it faster is next."""
BUSY: Final = 0.8  # of a step, from which on the device does not wait for much
ALWAYS_BUSY: Final = 0.95  # of a step, from which on only the device's own work limits it
LOW_MFU: Final = 0.1  # below it, short kernels that fill a step have too little work each
LEAST_TO_TRY: Final = 0.1  # of a step, in what an option makes faster
_ON_TENSOR_CORES: Final = ("convolution", "matrix product", "attention", "recurrent")
WAITING: Final = frozenset({"accelerator busy", "data loader", "launch-bound", "communication"})
"""Advice about what the device waits for."""
# The other advice is about a GPU.
ASKED_OF_CPUS: Final = ("data loader", "communication")
_MEANINGS: Final[Mapping[str, str]] = {
    "busy": "busy: share of the step with work on the GPU",
    "at_most": "if never idle: speedup without idle time, all else the same",
    "mfu": "MFU: operations per second over the data sheet's dense peak",
    "of_peak": "of measured peak: operations per second over those of the fastest matrix product",
    "preparation_cold_s": "to start: cold-cache compile and capture time",
}
_TIED: Final = "\u00a0"
"""A space where no line ends."""
_ONLY_EAGER: Final = "only eager"
_SAME_TASK: Final = ("workload", "size", "device", "batch_size", "parallelism")

NEXT: Final[Mapping[str, str]] = {
    "launch-bound": "launch less often (CUDA graphs)",
    "short kernels": "fuse kernels (torch.compile)",
    "small kernels": "use a larger batch",
    "tensor cores": "use tensor cores (bf16)",
    "data loader": "load data faster",
    "pageable copies": "pin memory",
    "synchronising calls": "synchronize less often",
    "communication": "overlap communication",
    "optimizer": "use a fused optimizer",
    "peak memory": "save memory",
    "unknown wait": "find out what it waits for",
}
"""What to try, by the advice of traces/advice.py, as a cell has room for it."""
# The option or precision that NEXT names.
_DONE_BY: Final[Mapping[str, str]] = {
    "launch-bound": "graphs",
    "short kernels": "compile",
    "tensor cores": "bf16",
    "pageable copies": "pinned",
    "optimizer": "fused",
}


def chains(tables: Tables) -> list[Row]:
    """A row of CHAIN for each model and device, in the order of `eager_and_fastest`.

    Factors are missing where there is nothing to compare with. `over_fastest_cpu` is the fastest
    over the CPU's fastest configuration, which has the `cpu_settings`; `on_all` is the fastest on
    the most devices, without settings that gain nothing significant there; it has the
    `all_settings`, and its row is `several`; `pair` has the rows of the eager baseline and of the
    fastest, `on_one` those on one device, `on_cpu` those of the CPU and its fastest. A model
    without an eager baseline has its fastest on the fewest devices alone; where those are several,
    its rate on one is that of the process measured in turn. Custom training loops have no row.
    """
    variants = {row["variant"]: row for row in rows_of(tables.variants)}
    rows: list[Row] = []
    for names in eager_and_fastest(tables):
        eager, fastest = variants[names[0]], variants[names[-1]]
        if eager["begins_anew"]:
            continue
        first, best = (_alone(tables, row) for row in (eager, fastest))
        on_cpu = [
            row
            for row in variants.values()
            if row["status"] == "ok"
            and row["device"] == "cpu" != eager["device"]
            and row["strategy"] == SINGLE
            and not is_bound(row["options"])
            and all(row[field] == eager[field] for field in ("workload", "size"))
        ]
        cpu = next(
            (
                row
                for row in on_cpu
                if row["optimization"] == NO_OPTIONS
                and first
                and all(row[field] == first[field] for field in ("precision", "batch_size"))
            ),
            None,
        )
        shared = [
            row
            for row in variants.values()
            if all(row[field] == fastest[field] for field in ("workload", "size"))
            and row["devices"] > 1
            and row["status"] == "ok"
            and row["device"] != "cpu"
            and not is_bound(row["options"])
        ]
        widest = alike(shared, max(shared, key=itemgetter("devices"), default={}), "devices")
        vain = {
            each["variant"]
            for row in widest
            for each in rows_compared_with(tables, row)
            if each["speedup_p"] >= SIGNIFICANCE
            and len(steps_from_eager(variants[each["variant"]])) > len(steps_from_eager(row))
        }
        gaining = [row for row in widest if row["variant"] not in vain]
        on_all = fastest_of(gaining) if gaining else None
        plain = first if eager["optimization"] == NO_OPTIONS else None
        if plain and fastest is eager:
            best = None
        fastest_cpu = max(on_cpu, key=lambda row: float(row["throughput_per_s"]), default=None)
        rows.append(
            {
                "model": model_cell(eager),
                "needs": _settings(best, plain) if best else _ONLY_EAGER * bool(plain),
                "pair": (eager, fastest),
                "on_one": (plain, best),
                "several": on_all,
                "on_cpu": (cpu, fastest_cpu),
                **_rates("cpu", cpu),
                **_factor("gpu_over_cpu", tables, first, cpu),
                **_rates("eager", plain),
                **_factor("fastest_over_eager", tables, best, plain),
                **_rates("fastest", best),
                **_factor("fastest_over_cpu", tables, best, None if fastest is eager else cpu),
                **_factor(
                    "over_fastest_cpu",
                    tables,
                    best or first,
                    None if fastest_cpu is cpu else fastest_cpu,
                ),
                "cpu_settings": _settings(fastest_cpu, cpu) if fastest_cpu else "",
                **_rates("on_all", on_all),
                "all_settings": _settings(on_all, None) if on_all else "",
            }
        )
    return rows


def scaled(tables: Tables) -> list[Row]:
    """Rows of SCALED: the weak scaling of each model on several GPUs, of each the fastest that was
    measured in turn with one process.

    Computing and waits are missing where a step of one process was not profiled, exchange where the
    shared step was not.
    """
    parts = times_by_part(tables)
    trained = {row["variant"]: row for row in rows_of(tables.variants)}
    shared = [
        row
        for row in with_variants(tables.scaling_efficiency, trained)
        if row["is_weak"]
        and row["device"] != "cpu"
        and row["devices"] > 1
        and row["base_speedup"] > 0
        and not is_bound(row["options"])
    ]
    found: list[Row] = []
    for row in best_of_each(shared, "throughput_per_s", "workload", "size"):
        here, alone = parts.get(row["variant"]), parts.get(row["plain_variant"])
        longer = dict.fromkeys((column.column for column in STEP_PARTS), math.nan)
        longer_ms = row["step_time_ms"] - row["base_step_time_ms"]
        if here and alone:
            longer = {name: here[name] - alone[name] for name in longer}
            longer_ms = sum(longer.values())
        elif here:
            longer["exchange_ms"] = here["exchange_ms"]
        words = {"model": model_cell(row), "code": execution_in_words(row)}
        found.append({**row, **words, "longer_ms": longer_ms, **longer})
    return found


def scaled_notes(rows: Sequence[Row]) -> list[str]:
    """What the columns of SCALED mean, in which of these rows the exchange is an upper bound, and
    why some have gaps in them.
    """
    gap = "–: no reliable profile of a step on one GPU or on several."
    slowed = [
        f"{model_cell(row)}: {METRICS['profile_overhead'].quantity(row).plain(interval=False)}"
        for row in rows
        if row["profile_overhead"] > _LENGTHENED
        and "graphs" not in option_names(row["optimization"])
    ]
    at_most = (
        "Exchange is an upper bound where the profiler makes the step much longer, since "
        "communication that begins late is hidden less (profiled over timed step: "
        f"{'; '.join(slowed)})."
    )
    return [
        _SCALED_NOTE,
        *([at_most] if slowed else []),
        *([gap] if _has_gaps(rows, SCALED) else []),
    ]


def times_by_part(tables: Tables) -> dict[str, dict[str, float]]:
    """The milliseconds of STEP_PARTS in the timed step of each profiled variant."""
    found = {}
    by_variant = grouped(rows_of(tables.step_categories), lambda row: row["variant"])
    for variant, rows in by_variant.items():
        times_ms = {row["category"]: row["ms_per_step"] for row in rows}
        exchange_ms, idle_ms = times_ms.pop(COMMUNICATION, 0.0), times_ms.pop(IDLE_TIME, 0.0)
        own_ms = sum(times_ms.values())
        found[variant] = {"own_ms": own_ms, "exchange_ms": exchange_ms, "idle_ms": idle_ms}
    return found


def _rates(name: str, row: Row | None) -> dict[str, float]:
    """The throughput of a configuration with its interval, missing without one."""
    return {f"{name}{end}": row[f"throughput_per_s{end}"] if row else math.nan for end in ENDS}


ENDS: Final = ("", "_low", "_high", "_count")
"""Of the names of a number's columns: itself, its interval, and how many processes gave it."""


def _alone(tables: Tables, row: Row) -> Row | None:
    """The configuration on one device: itself, or the process that was measured in turn with it, of
    which only the throughput is known. That one has no name: no experiment compares it.
    """
    if row["devices"] == 1:
        return row
    return next(
        (
            {
                **row,
                "variant": "",
                **{f"throughput_per_s{end}": base[f"base_throughput_per_s{end}"] for end in ENDS},
                TOKENS.column: math.nan,
                "batch_size": base["batch_per_device"],
                "parallelism": SINGLE,
                "devices": 1,
            }
            for base in _of(row, tables.scaling_efficiency)
            if base["base_throughput_per_s"] > 0
        ),
        None,
    )


def _factor(name: str, tables: Tables, row: Row | None, over: Row | None) -> dict[str, float]:
    """The factor between two throughputs with its interval, missing without one of them."""
    found = gain_over(tables, row, over) if row and over else NOT_MEASURED
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


def _settings(row: Row, eager: Row | None) -> str:
    """What a configuration has that its eager baseline has not; without one, what it has."""
    return "" if row is eager else configuration_in_words(row, beside=eager or row)


def notes_on_precision(tables: Tables, rows: Iterable[Row]) -> list[str]:
    """Which of these models compute recurrent layers in fp16 where their precision is bf16, by the
    types of their kernels: `torch.autocast` has no other type for those of cuDNN.
    """
    kernels = tables.top_kernels
    is_half = (kernels["category"] == "recurrent") & kernels["name"].str.contains("__half")
    in_half = set(kernels.loc[is_half, "variant"])
    models = dict.fromkeys(
        title_cell(row) for row in rows if row["precision"] == "bf16" and row["variant"] in in_half
    )
    return [
        f"{model} in bf16: torch.autocast runs cuDNN's recurrent layers in fp16, and the gradients "
        "are not scaled."
        for model in models
    ]


_TRAINED: Final = ("eager", "fastest", "on all GPUs")


def chain_notes(tables: Tables, rows: Sequence[Row]) -> list[str]:
    """Which factors multiply, what the CPU's fastest configurations are, where they are not its
    eager ones, and those on all GPUs; and where the held-out metric is lower with the fastest, by
    Welch's t, adjusted for the other models.
    """
    settings = [f"{row['model']} {row['cpu_settings']}" for row in rows if row["cpu_settings"]]
    on_all = [f"{row['model']} {row['all_settings']}" for row in rows if row["all_settings"]]
    pairs = [
        (eager, fastest)
        for eager, fastest in (row["pair"] for row in rows)
        if is_share(eager) and fastest is not eager
    ]
    falls = [
        difference_of_means(summary_in(eager, "quality"), summary_in(fastest, "quality"))
        for eager, fastest in pairs
    ]
    adjusted = holm([fall.p for fall in falls])
    lost = [
        f"{model_cell(eager)} {eager['quality_name']} {after} instead of {before} with "
        f"{in_words('batch_size', eager['batch_size'])}"
        + " (too close to call)"
        * (not (p < SIGNIFICANCE and fall.low > QUALITY_TOLERANCE))
        for (eager, fastest), fall, p in zip(pairs, falls, adjusted, strict=True)
        if fall.value > QUALITY_TOLERANCE
        for before, after in [
            [METRICS["quality"].quantity(one).plain() for one in (eager, fastest)]
        ]
    ]
    tokens = [
        f"{row['model']} {name} {TOKENS.quantity(one).plain(interval=False)}"
        for row in rows
        for name, one in zip(_TRAINED, (*row["on_one"], row["several"]), strict=True)
        if one and math.isfinite(one[TOKENS.column])
    ]
    doubts = [*filter(None, map(_doubts, rows))]
    whole = any(math.isfinite(row["fastest_over_cpu"]) for row in rows)
    return [
        *(
            ["The factors multiply: GPU over CPU × fastest over eager = fastest over CPU."]
            if whole
            else []
        ),
        *([f"The CPU's fastest configuration: {'; '.join(settings)}."] if settings else []),
        *(
            ["Only eager: no other configuration of the same size is significantly faster."]
            if any(row["needs"] == _ONLY_EAGER for row in rows)
            else []
        ),
        *([f"On all GPUs, likewise: {'; '.join(on_all)}."] if on_all else []),
        *([f"In tokens: {'; '.join(tokens)}."] if tokens else []),
        *([f"Doubtful rates and factors: {'; '.join(doubts)}."] if doubts else []),
        *(["–: none, or not measured on this machine."] if _has_gaps(rows, CHAIN) else []),
        *(
            [f"Lower held-out metric with the fastest configuration: {'; '.join(lost)}."]
            if lost
            else []
        ),
        *notes_on_precision(tables, (row["pair"][1] for row in rows)),
    ]


def _doubts(chain: Row) -> str:
    """With which quality flags a row of `chains` decides less, or nothing; empty without any."""
    members = filter(None, (*chain["pair"], chain["several"], *chain["on_cpu"]))
    found = {flag for member in members for flag in flags_of(member)}
    why = ", ".join(WEAKENING[flag] for flag in WEAKENING if flag in found)
    return why and f"{chain['model']}: {why}"


def _has_gaps(rows: Sequence[Row], columns: Sequence[Text | Metric]) -> bool:
    """Whether one of these rows lacks a number that another one has."""
    shown = [each for each in columns if isinstance(each, Metric) and each.is_in(rows)]
    return any(math.isnan(row[each.column]) for each in shown for row in rows)


def first_steps(tables: Tables, rows: Sequence[Row]) -> list[str]:
    """What to switch on first for each of these rows of `chains` whose fastest an experiment
    compares with its eager baseline, the largest gain first: the step of the fastest that gains
    most by itself, and what all of them gain together.
    """
    sentences = {}
    for chain in rows:
        eager, fastest = chain["pair"]
        compared = {row["variant"]: row for row in rows_compared_with(tables, eager)}
        total = compared.get(fastest["variant"])
        if total is None or fastest is eager or eager["optimization"] != NO_OPTIONS:
            continue
        step = greatest_step(tables, eager, fastest)
        together = METRICS["speedup"].quantity(total).plain()
        shown = METRICS["speedup"].quantity(step).plain() if step else together
        is_all = step is None or step["variant"] == fastest["variant"]
        rest = "" if is_all else f" alone; fastest configuration {together}"
        sentence = f"{chain['model']}: {_settings(step or fastest, eager)}, {shown}{rest}."
        sentences[sentence] = total["speedup"]
    return sorted(sentences, key=lambda first: -sentences[first])


def is_compiled(rows: Sequence[Row]) -> bool:
    """Whether the fastest of any of these rows of `chains` compiles, which takes time that its gain
    does not contain.
    """
    return any("compile" in option_names(row["pair"][1]["optimization"]) for row in rows)


def in_one_line(row: Row) -> str:
    """A row of CHAIN as text: 'LSTM: CPU 463 samples/s, eager 3700 samples/s 8.00×, ...'."""
    found = {column.column: column.quantity(row) for column in CHAIN if isinstance(column, Metric)}
    texts = {
        name: number.plain(interval="over" not in name) if number.is_measured else ""
        for name, number in found.items()
    }
    steps = (
        ("CPU", "cpu", ""),
        ("eager", "eager", "gpu_over_cpu"),
        ("fastest", "fastest", "fastest_over_eager"),
        ("on all GPUs", "on_all", ""),
    )
    links = [
        " ".join(filter(None, (words, texts[rate], texts.get(factor))))
        for words, rate, factor in steps
        if texts[rate]
    ]
    return f"{row['model']}: {', '.join(links)}"


def limit_cards(tables: Tables, rows: Sequence[Row]) -> list[Row]:
    """Rows of LIMIT_CARDS for each of these rows of `chains`: the eager baseline of a `model`, its
    fastest configuration, and that on all GPUs, where a trace shows a step of one.
    """
    categories = grouped(rows_of(tables.step_categories), lambda row: row["variant"])
    of_peak = {row["variant"]: row["share_of_peak"] for row in rows_of(tables.efficiency)}
    cards: list[Row] = []
    for chain in rows:
        eager, fastest = chain["pair"]
        members = [row for row in (eager, fastest) if row["devices"] == 1]
        members += [chain["several"]] if chain["several"] else []
        members = [*{row["variant"]: row for row in members}.values()]
        if not {row["variant"] for row in members} & categories.keys():
            continue
        for row in members:
            parts = categories.get(row["variant"], [])
            rest = _rest(row)
            shares = {str(part["category"]): (1 - rest) * part["share"] for part in parts}
            busy = sum(share for name, share in shares.items() if name != IDLE_TIME)
            if parts and rest:
                shares[WAIT_FOR_DATA] = rest
            shows_idle = busy > 0 and row["device"] != "cpu"
            cards.append(
                {
                    "variant": row["variant"],
                    "model": chain["model"],
                    "is": _member(row, eager),
                    "parts": ", ".join(
                        f"{american(name)} {count(100 * shares[name]).plain()}{_TIED}%"
                        for name in sorted(shares, key=lambda name: -shares[name])[:MOST_CATEGORIES]
                        if shares[name] >= LEAST_SHARE
                    )
                    or NO_STEP,
                    "left": _next(tables, row, fastest, shares) if parts else NO_STEP,
                    "step_ms": row["step_time_ms"] / (1 - rest),
                    "preparation_cold_s": row["preparation_cold_s"] or math.nan,
                    "busy": busy if shows_idle else math.nan,
                    "at_most": 1 / busy if shows_idle else math.nan,
                    "mfu": row["mfu"],
                    "of_peak": of_peak.get(row["variant"], math.nan),
                }
            )
    return cards


def next_steps(cards: Sequence[Row]) -> list[str]:
    """What to try next for each model of these rows of LIMIT_CARDS: the last advice for it."""
    last = {
        card["model"]: card["left"] for card in cards if card["left"] not in (NO_STEP, _NOT_KNOWN)
    }
    return [f"{model}: {left}" for model, left in last.items()]


def _member(row: Row, eager: Row) -> str:
    if row["devices"] > 1 or (row["optimization"] != NO_OPTIONS and row is eager):
        return configuration_in_words(row)
    if row is eager:
        return f"eager, {configuration_in_words(row)}"
    return f"fastest: {_settings(row, eager)}"


def _rest(row: Row) -> float:
    """The share of the time by which the mean step is longer than the median one because few steps
    wait long for data; 0 where that is too little to name.
    """
    rest = 1 - row["step_time_ms"] * row["throughput_per_s"] / (1000 * row["batch_size"])
    return rest if rest >= LEAST_REST and row["data_wait_share"] >= rest / 2 else 0.0


def limit_notes(cards: Sequence[Row], chains: Sequence[Row]) -> list[str]:
    """What the columns of LIMIT_CARDS mean that these rows fill, and which models have no card."""
    meanings = [
        meaning
        for name, meaning in _MEANINGS.items()
        if any(math.isfinite(card[name]) for card in cards)
    ]
    shown = {card["model"] for card in cards}
    left_out = dict.fromkeys(row["model"] for row in chains if row["model"] not in shown)
    return [
        f"{capitalized('; '.join([*meanings, '–: none, not measured, or not reliable']))}.",
        *(
            [f"No trace shows a step that can be trusted: {'; '.join(left_out)}."]
            if left_out
            else []
        ),
    ]


def _next(tables: Tables, row: Row, fastest: Row, shares: Mapping[str, float]) -> str:
    """What to try: to load data faster where the loop mostly waits for them, or a few steps wait
    for longer than all are idle; else the first advice whose option is not on, and did not turn
    out to gain nothing where it was measured alone, as more DataLoader workers may have.

    `shares` are those of a step by category.
    """
    idle, waits = (shares.get(name, 0.0) for name in (IDLE_TIME, WAIT_FOR_DATA))
    is_busy = 1 - idle - waits >= BUSY
    unknown = {
        each["rule"]
        for each in _of(row, tables.trace_unanswered)
        if row["device"] != "cpu" or each["rule"] in ASKED_OF_CPUS
    }
    known, tried = steps_from_eager(row), alike(rows_of(tables.variants), row, *_SAME_TASK)
    rules = _advice(tables, row, shares, is_busy=is_busy, is_open=bool(WAITING & unknown))
    if row["data_wait_share"] >= WAITS_FOR_DATA or waits > idle:
        rules = ["data loader", *rules]
    for rule in rules:
        option, is_loading = _DONE_BY.get(rule, ""), rule == "data loader"
        done = [
            each
            for each in tried
            if steps_from_eager(each) == (known if is_loading else {*known, option})
            and (each["workers"] > row["workers"] or not is_loading)
        ]
        gains = [gain_over(tables, each, row) for each in done]
        vain = done if all(gain.value <= 1 or gain.p >= SIGNIFICANCE for gain in gains) else []
        if not vain and option not in known:
            return NEXT.get(rule, rule)
        if vain and option in steps_from_eager(fastest):
            return (
                f"{_settings(vain[0], row)} with the fastest's other options "
                "(no significant gain alone)"
            )
    if rules[:1] == ["data loader"]:
        return "prepare the data beforehand"
    left = "only faster kernels" if is_busy else "less Python between operations"
    return _NOT_KNOWN if unknown and 1 - idle < ALWAYS_BUSY else left


def _advice(
    tables: Tables, row: Row, shares: Mapping[str, float], *, is_busy: bool, is_open: bool
) -> list[str]:
    """The rules of NEXT in the order in which to try them: the advice of the trace, the most severe
    first.

    Before it what a step that is not busy waits for, if advice about that is open: the host's
    launches, where nothing else is left. After it what helps a busy step of short kernels; for
    devices that share a training, a larger batch, which hides what a step costs them in waits; and
    what a busy step lacks: a precision in which the GPU multiplies faster, a fused optimizer.
    """
    rules = [each["rule"] for each in _of(row, tables.trace_advice)]
    rules = [rule for rule in rules if rule != "accelerator busy"]  # it names no cause
    if not is_busy and is_open and not WAITING & {*rules[:1]}:
        is_host = (
            row["device"] != "cpu"
            and row["devices"] == 1
            and "graphs" not in steps_from_eager(row)
            and row["data_wait_share"] < shares.get(IDLE_TIME, 0.0) / 2
        )
        return ["launch-bound" if is_host else "unknown wait", *rules]
    least = ADVICE_OF["short kernels"].threshold
    is_short = any(each["short_share"] >= least for each in _of(row, tables.step_shares))
    idle, exchange = (shares.get(name, 0.0) for name in (IDLE_TIME, COMMUNICATION))
    multiplying = sum(shares.get(name, 0.0) for name in _ON_TENSOR_CORES)
    if is_busy and row["mfu"] < LOW_MFU and is_short:
        rules += ["short kernels"] * (1 - multiplying - idle >= LEAST_TO_TRY) + ["small kernels"]
    if row["devices"] > 1 and idle + exchange > 1 - ALWAYS_BUSY:
        rules.append("communication" if exchange > idle else "small kernels")
    if is_busy and row["precision"] == "fp32" and multiplying >= LEAST_TO_TRY:
        rates = {
            peak["precision"]: peak["value"]
            for peak in alike(rows_of(tables.peaks), row, "device")
            if row["device"] != "cpu"
        }
        rules += ["tensor cores"] * (rates.get("bf16", 0.0) > rates.get("fp32", math.inf))
    is_apart = is_busy and "compile" not in steps_from_eager(row)
    return rules + ["optimizer"] * (is_apart and shares.get("optimizer", 0.0) >= LEAST_TO_TRY)


def _of(row: Row, table: "pd.DataFrame") -> list[Row]:
    return list(rows_of(table[table["variant"] == row["variant"]]))
