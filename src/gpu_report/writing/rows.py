"""Which rows of a machine's tables the report's tables show, what they say in words, and what was
trained and how, from what the workloads said of themselves in the records.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from gpu_report.answers.estimate import Estimate, estimate, of_source, ratio_of
from gpu_report.answers.questions.axes import MEMORY_TOLERANCE
from gpu_report.glossary import (
    METRICS,
    Metric,
    Row,
    american,
    capitalized,
    device_words,
    machine_words,
)
from gpu_report.printing.number_format import (
    NOT_MEASURED,
    Quantity,
    count,
    counted,
    exact,
    quantity,
    scaled,
    share,
    size,
)
from gpu_report.records.record import Record
from gpu_report.study.options import NO_OPTIONS
from gpu_report.study.strategies import SINGLE, STRATEGIES
from gpu_report.study.variant import Variant
from gpu_report.tables.bundle import (
    Tables,
    alike,
    best_of_each,
    grouped,
    rows_of,
    shown_profiles,
    spread_between,
    with_variants,
)
from gpu_report.tables.marks import INVALIDATES_ALL
from gpu_report.tables.scaling import compared_with
from gpu_report.tables.sources import COMPARED
from gpu_report.traces.quality import NOT_RELIABLE
from gpu_report.words import (
    batch_in_words,
    described,
    flags_but_projected,
    listed,
    model_cell,
    optimization_in_words,
    per_device,
    shorten,
    title_cell,
    value_words,
    with_configurations,
)
from gpu_report.writing.cards import ENDS, times_by_part
from gpu_report.writing.machine import MachineResults

if TYPE_CHECKING:
    import pandas as pd

_VARIANTS_WITH_LONGEST: Final = 2
"""Whose longest operations, kernels and so on are shown; the CSV files have all."""
_HOST_COLUMNS: Final = ("wall_ms", "loader_share")
_PRICED: Final = (("electricity", "kwh", "kWh"), ("device time", "device_hour", "hour"))
"""What a cost may count, and the ends of the price's name and of its words."""


def first_of_each(rows: Iterable[Row], *columns: str) -> list[Row]:
    """The first row with each combination of values in these columns, in order."""
    found = grouped(rows, lambda row: tuple(row[column] for column in columns))
    return [same[0] for same in found.values()]


def differences_in_all(rows: Sequence[Row]) -> list[str]:
    """What differs between two machines besides them, where it is the same in all of these rows of
    COMPARISON.
    """
    found = {str(row["differences"]) for row in rows} - {""}
    return [f"Also different in all rows: {found.pop()}."] if len(found) == 1 else []


def on_accelerators(rows: Iterable[Row]) -> list[Row]:
    """The rows of trainings on one."""
    return [row for row in rows if row["device"] != "cpu"]


def batch_searches(rows: Sequence[Row]) -> list[Row]:
    """A row for each batch-size search out of those of BATCH_SIZES, with the numbers of its
    answers.

    `options` is empty for the eager baseline. `largest_`, `fastest_` and `near_` (the smallest that
    is nearly as fast) are before the columns of each; these are missing where nothing fits.
    """
    nothing = dict.fromkeys((*_OF_ANSWER, "samples"), math.nan)
    found: list[Row] = []
    for tried in grouped(rows, itemgetter("search")).values():
        answers = {mark: next((row for row in tried if row[mark]), nothing) for mark in _ANSWERS}
        numbers = {
            f"{prefix}{column}": answers[mark][column]
            for mark, prefix in _ANSWERS.items()
            for column in (*_OF_ANSWER, "samples")
        }
        first = next((row for row in tried if row["status"] == "ok"), tried[-1])
        options = "" if first["optimization"] == NO_OPTIONS else first["optimization"]
        found.append({**first, **numbers, "options": options})
    return found


_ANSWERS: Final = {
    "is_largest": "largest_",
    "is_fastest": "fastest_",
    "is_smallest_near_fastest": "near_",
}
_OF_ANSWER: Final = (
    "throughput_per_s", "throughput_per_s_low", "throughput_per_s_high", "throughput_per_s_count",
    "memory_peak_mib", "headroom_share",
)  # fmt: skip


def ceilings(tables: Tables) -> list[Row]:
    """What each device reaches at most, beside what the vendor's data sheet gives: each in its own
    unit.
    """
    return [
        {
            **row,
            "reached": Metric(
                column="value",
                header="",
                show=lambda value, base=row["unit"], **bounds: scaled(value, base, **bounds),
            )
            .quantity(row)
            .plain(),
            "data sheet": scaled(row["data_sheet"], row["unit"]).plain()
            if math.isfinite(row["data_sheet"])
            else "",
        }
        for row in rows_of(tables.peaks)
    ]


def data_sheet_notes(rows: Sequence[Row]) -> list[str]:
    """Where the data sheets of these devices are."""
    sources = {
        str(row["data_sheet_source"]): device_words(row["device"])
        for row in rows
        if row["data_sheet_source"]
    }
    return [f"Data sheet of {device}: {source}." for source, device in sources.items()]


def cost_of_epochs(rows: Sequence[Row]) -> Metric:
    """What a thousand epochs cost; a single one often costs less than a cent."""
    currency = next((str(row["currency"]) for row in rows if row["currency"]), "")
    show: Callable[..., Quantity] = lambda value, **_: quantity(1000 * value, currency)  # noqa: E731
    return Metric(column="cost_per_epoch", header="1000 epochs cost", show=show)


def cost_note(rows: Sequence[Row]) -> str:
    """What the cost of these variants counts at which price, and for each price that is missing
    where it would be.
    """
    counted, missing = [], []
    for what, key, each in _PRICED:
        price = float(rows[0][f"price_per_{key}"])
        if math.isfinite(price):
            counted.append(f"{what} at {exact(price, str(rows[0]['currency'])).plain()} per {each}")
        else:
            missing.append(
                f"The price of {what} is not configured: prices.per_{key} in the study's "
                "configuration."
            )
    return " ".join([*([f"Cost: {' and '.join(counted)}."] if counted else []), *missing])


def differences_between_devices(machine: MachineResults) -> list[Row]:
    """How far CPU and accelerator are apart after the last epoch: a row for each pair of
    variants.
    """
    titles = {row["workload"]: title_cell(row) for row in machine.measured}
    pair, frame = ["workload", "size", "batch_size", "device"], machine.tables.consistency
    last = frame[frame["epoch"] == frame.groupby(pair)["epoch"].transform("max")]
    nothing = {f"difference_{metric}": math.nan for metric in frame["metric"]}
    return [
        {
            **nothing,
            **rows[0],
            "title": titles[rows[0]["workload"]],
            **{f"difference_{row['metric']}": row["difference_percent"] for row in rows},
        }
        for rows in grouped(rows_of(last), itemgetter(*pair)).values()
    ]


def results_of_sources(sources: "pd.DataFrame", *, compared: bool) -> list[Row]:
    """The results of the sources beside ours, of what was measured here: those that are `compared`,
    with what ours say of them, or the others but the numbers of parameters, which another table
    has.

    One that says only which of two is faster has no number.
    """
    return [
        {
            **row,
            "theirs in words": exact(
                float(row["reported"]), _UNITS.get(row["unit"], row["unit"])
            ).plain()
            if math.isfinite(row["reported"])
            else "faster",
            "ours in words": METRICS[row["metric"]]
            .show(
                float(row["ours"]),
                **{
                    end: float(row[f"ours_{end}"])
                    for end in ("low", "high")
                    if math.isfinite(row[f"ours_{end}"])
                },
            )
            .plain(),
            "here": _HERE[of_source(row).against(1.0)],
            "heading": f"{row['source']} (hardware: {row['hardware']})",
        }
        for row in rows_of(sources)
        if (row["metric"] in COMPARED) == compared
        and row["metric"] != "parameters"
        and math.isfinite(row["ours"])
    ]


def notes_on_source(row: Row) -> list[str]:
    """What differs from the source, and the quality flags of ours."""
    is_time = row["metric"] not in _NO_TIMES
    flags = [flag for flag in flags_but_projected(row) if is_time or flag in INVALIDATES_ALL]
    return [*filter(None, [row["differs"]]), *flags]


_UNITS: Final[Mapping[str, str]] = {"1": "", "1/s": "samples/s"}
_HERE: Final = {"above": "holds", "unclear": "too close to call", "below": "does not hold"}
_NO_TIMES: Final = ("quality", "memory_peak_mib", "memory_percent")
"""Metrics of the sources that a quality flag of a time is not about."""


_WIDE: Final = 0.05  # an interval over its factor, from which on three digits hide it
_METHODS: Final = {"ddp": "DDP", "dp": "DataParallel (discouraged)"}
"""Strategies whose title is too long for a column, or says too little."""
_OF_ONE: Final = {
    "throughput_per_device_per_s": "throughput_per_s",
    "memory_allocated_most_mib": "memory_peak_mib",
}
"""What has another name where one plain process trained."""
_OF_STRONG: Final = {"base_speedup": "strong_speedup", "weak_efficiency": "strong_efficiency"}
"""What is over the plain process with the samples of all devices, in the columns of that with those
of one device.
"""


def sharing(machine: MachineResults, rows: Iterable[Row]) -> list[Row]:
    """The rows of an experiment whose training devices share, each below the plain process that it
    is compared with.

    That one has as many samples per step as each device (weak scaling), or as all of them (strong
    scaling, `is_divided`); what is compared with both has two rows. Where none was measured by
    itself, it is the one measured in turn, of which only the throughput is known. Trainings that
    failed are among them. Rows of one `heading` and `configuration` are compared with the same
    process.
    """
    frame = machine.tables.scaling_efficiency
    found = {row["variant"]: row for row in rows_of(frame)}
    plain = {row[name] for row in found.values() for name in ("plain_variant", "strong_variant")}
    nothing: dict[str, Any] = {
        str(name): math.nan for name in frame if frame[name].dtype == "float64"
    }
    nothing |= {str(name): 0 for name in frame if str(name).endswith("_count")}
    measured = {each["variant"] for each in machine.measured}
    alike: dict[tuple[str, ...], list[Row]] = {}

    def comparison(row: Row, samples: int) -> tuple[str, ...]:
        return (
            f"{model_cell(row)}, {per_device(samples, row['device'])}",
            row["precision"],
            row["optimization"],
        )

    def add(
        row: Row, samples: int, renamed: Mapping[str, str], *, is_divided: bool = False
    ) -> None:
        same = comparison(row, samples)
        own = {**nothing, **found.get(row["variant"], {}), **row}
        again = {f"{to}{end}": own[f"{of}{end}"] for to, of in renamed.items() for end in ENDS}
        shown = {
            **own,
            **again,
            "method": _method(own, is_divided=is_divided),
            "is_divided": is_divided,
        }
        alike.setdefault(same, []).append({**shown, "heading": same[0]})

    for row in rows:
        if row["strategy"] == SINGLE:
            if row["variant"] in plain:
                add(row, row["batch_size"], _OF_ONE)
            continue
        # A training that failed is in no row of them.
        own = found.get(row["variant"]) or compared_with(
            Variant.from_slug(row["variant"]), measured
        )
        if own["is_weak"]:
            if (
                row["variant"] in found
                and not own["plain_variant"]
                and comparison(row, own["batch_per_device"]) not in alike
            ):
                # The plain process that was measured in turn with a shared training, as a row of
                # its own.
                rates = {
                    f"{rate}{end}": own[f"base_throughput_per_s{end}"]
                    for rate in ("throughput_per_s", "throughput_per_device_per_s")
                    for end in ENDS
                }
                add(
                    {
                        **row,
                        **nothing,
                        **rates,
                        "variant": "",
                        "strategy": SINGLE,
                        "devices": 1,
                        "marks": "",
                    },
                    own["batch_per_device"],
                    {},
                )
            add(row, own["batch_per_device"], {})
        if own["is_strong"]:
            add(row, row["batch_size"], _OF_STRONG, is_divided=True)
    by_heading = grouped(chain.from_iterable(alike.values()), itemgetter("heading"))
    return with_configurations([row for same in by_heading.values() for row in same])


def steps_of_sharing(tables: Tables, sharing: Iterable[Row]) -> list[Row]:
    """Of each of these rows of weak scaling whose step was profiled, what it consists of; none
    where no devices share a profiled step.
    """
    parts = times_by_part(tables)
    found: list[Row] = [
        {**row, **parts[row["variant"]]}
        for row in sharing
        if row["variant"] in parts and not row["is_divided"]
    ]
    return found if any(row["devices"] > 1 for row in found) else []


def _method(row: Row, *, devices: str = "", is_divided: bool = False) -> str:
    strategy = STRATEGIES[str(row["strategy"])]
    each = per_device(row["batch_size"] // row["devices"], row["device"])
    divided = f", {each}" if is_divided and strategy.divides_batch else ""
    hosts = f", {row['hosts']} hosts" if row.get("hosts", 1) > 1 else ""
    return _METHODS.get(str(row["strategy"]), strategy.title) + devices + divided + hosts


def what_to_use(machine: MachineResults, rows: Sequence[Row]) -> list[Row]:
    """What to `use` on several GPUs in which `situation`, and what was `measured` of the models
    that it suits.
    """
    on_gpus = sharing(machine, on_accelerators(rows))
    on_several = [
        row for row in on_gpus if row["devices"] > 1 and math.isfinite(row["base_speedup"])
    ]
    in_weak = [row for row in on_several if not row["is_divided"]]
    weak = grouped(in_weak, model_cell).values()
    strong = best_of_each(
        [row for row in on_several if row["is_divided"]], "base_speedup", "heading", "configuration"
    )
    compared = [
        *(("weak: most samples/s", *_fastest(machine.tables, own)) for own in weak),
        *(("strong: most samples/s", row, estimate(row, "base_speedup")) for row in strong),
    ]
    advice = [(situation, *_decided(row, figure)) for situation, row, figure in compared]
    advice += _by_memory(machine, in_weak)
    return [
        {"situation": situation, "use": use, "measured": "; ".join(words for *_, words in alike)}
        for (situation, use), alike in grouped(advice, lambda each: each[:2]).items()
    ]


def _fastest(tables: Tables, rows: Sequence[Row]) -> tuple[Row, Estimate]:
    """What trains fastest on several devices, and how much faster than the fastest plain
    process.
    """
    best, alone = (
        max(rows, key=lambda row: float(row[f"{of}throughput_per_s"])) for of in ("", "base_")
    )
    rate = estimate(best, "throughput_per_s")
    base, spread = estimate(alone, "base_throughput_per_s"), spread_between(tables, best, alone)
    return best, rate.over(base, spread)


def _by_memory(machine: MachineResults, rows: Iterable[Row]) -> Iterator[tuple[str, str, str]]:
    """Where FSDP2 takes less memory of each device than DistributedDataParallel of the same code
    with as many samples per device, by how much and at which speed, with what its step waits for.
    """
    memory = ratio_of("memory_allocated_most_mib")
    rate = ratio_of("throughput_per_s", machine.tables)
    parts = times_by_part(machine.tables)
    for row in rows:
        for ddp in alike(rows, row, "heading", "configuration", "devices"):
            saved = memory(row, ddp)
            of_both = (row["strategy"], ddp["strategy"])
            if of_both == ("fsdp", "ddp") and saved.against(1 - MEMORY_TOLERANCE) == "below":
                waits = [
                    f"{quantity(parts[row['variant']][column], 'ms').plain()} {what}"
                    for column, what in (
                        ("idle_ms", "idle or waiting"),
                        ("exchange_ms", "exchange"),
                    )
                    if row["variant"] in parts
                ]
                code = "; ".join(filter(None, (row["configuration"], ", ".join(waits))))
                yield (
                    "weak: less memory than DDP",
                    _on_devices(row),
                    f"{row['heading']}: {_times(saved)} the memory and "
                    f"{_times(rate(row, ddp))} the samples/s of DDP ({code})",
                )


def _decided(row: Row, figure: Estimate) -> tuple[str, str]:
    """What to use by a speedup, the devices where it is above 1, with the speedup, and why if that
    is not resolved.
    """
    side = figure.against(1.0)
    use = {"above": _on_devices(row), "unclear": "too close to call"}.get(side, "one GPU")
    why = f", because {figure.why_unclear(1, '1')}" if side == "unclear" else ""
    whole = f"{model_cell(row)}, batch size {row['batch_size']}"
    trained = whole if row["is_divided"] else row["heading"]
    return use, f"{trained}, {row['configuration']}: {_times(figure)}{why}"


def _on_devices(row: Row) -> str:
    return _method(row, devices=f" on {row['devices']}", is_divided=row.get("is_divided", False))


def _times(figure: Estimate) -> str:
    """A factor, with its interval where that is wide."""
    is_wide = figure.high - figure.low > _WIDE * figure.value
    ends = {"low": figure.low, "high": figure.high} if is_wide else {}
    return METRICS["speedup"].show(figure.value, **ends).plain()


def threads_of(rows: Iterable[Row]) -> str:
    """Threads of each rank, and of the base measured in turn with it."""
    found = sorted({int(row["threads"]) for row in rows if not math.isnan(row["threads"])})
    return listed([str(number) for number in found]) if found else "not measured"


def notes_on_configurations(rows: Iterable[Row]) -> list[str]:
    """Which options the configurations of each model have beyond those that their names say."""
    options = dict.fromkeys(
        f"{model_cell(row)}, {row['configuration']}: {words}"
        for row in rows
        if row["optimization"] != NO_OPTIONS
        for words in [optimization_in_words(row["optimization"])]
        if not row["configuration"].endswith(words)
    )
    return [f"Options of {'; '.join(options)}."] if options else []


def notes_on_bases(rows: Sequence[Row]) -> list[str]:
    """By how much the plain process that is measured in turn, over which a speedup is, differs at
    most from the one in its own row.
    """
    alone = {
        (row["heading"], row["configuration"]): row["throughput_per_s"]
        for row in rows
        if row["strategy"] == SINGLE
    }
    apart = [
        abs(row["base_throughput_per_s"] / alone[key] - 1)
        for row in rows
        if not row["is_divided"] and (key := (row["heading"], row["configuration"])) in alone
    ]
    most = max(filter(math.isfinite, apart), default=0.0)
    return (
        [
            "In weak scaling, speedup and efficiency are over one process, measured in turn with "
            "each repetition. Its throughput differs from that in the row of one process by "
            f"{share(most).plain()} at most."
        ]
        if most
        else []
    )


def notes_on_ranks(machine: MachineResults, rows: Sequence[Row]) -> list[str]:
    """Which rank all others wait for, and where several of torchrun's agents ran on one host."""
    measured = {row["variant"]: row for row in rows}
    slow = [
        f"{row['heading']}, {row['configuration']}, {row['method']}, {row['devices']} devices "
        f"(rank {rank['rank']})"
        for rank in rows_of(machine.tables.ranks)
        if rank["is_slow"] and (row := measured.get(rank["variant"])) is not None
    ]
    waiting = [f"In these traces all ranks wait for one: {'; '.join(slow)}."] if slow else []
    methods = [str(row["method"]) for row in rows if row.get("agents", 0) > row.get("hosts", 0)]
    agents = (
        "Several of torchrun's agents on one host trained {}: this tests the launcher, not a "
        "network."
    )
    return waiting + ([agents.format(listed(list(dict.fromkeys(methods))))] if methods else [])


def link_in_words(machine: MachineResults) -> str:
    """What connects the GPUs, and what the largest all-reduce among the most of them reaches; empty
    where unknown.
    """
    links = [row for row in rows_of(machine.tables.links) if row["operation"] == "all-reduce"]
    if not links:
        return ""
    most = max(links, key=lambda row: (row["devices"], row["bytes"]))
    names = most["connections"].split(", ") if most["connections"] else []
    kinds = [
        counted(int(name[2:]), "NVLink") if name.startswith("NV") else f"PCI Express ({name})"
        for name in names
    ]
    connection = f"are connected by {listed(kinds)}" if kinds else "have an unknown connection"
    multicast = f" (NVLink SHARP {most['multicast']})" if most["multicast"] else ""
    of_peak = (
        f", {share(most['bus_bandwidth_gb_per_s'] / most['data_sheet_gb_per_s']).plain()} of what "
        "the data sheet gives for one direction of these links"
        if math.isfinite(most["data_sheet_gb_per_s"])
        else ""
    )
    return (
        f"The GPUs ({machine_words(machine.id)}) {connection} (peer access: "
        f"{most['peer_access'] or 'unknown'}). An all-reduce of {size(most['bytes']).plain()} "
        f"over {most['devices']} of them reaches a bus bandwidth of "
        f"{METRICS['bus_bandwidth_gb_per_s'].quantity(most).plain()} with "
        f"{most['backend']}{multicast}{of_peak}."
    )


def profiled_steps(machine: MachineResults) -> list[Row]:
    """The rows of STEP_SHARES of the variants that the report shows, with those of the variants.

    `doubts` has the sentences of the checks that the trace failed, in one text; it is empty where
    none failed.
    """
    found = {str(row["variant"]): row for row in rows_of(machine.tables.step_shares)}
    measured = {str(row["variant"]): row for row in machine.measured}
    failed = rows_of(machine.tables.trace_doubts)
    shown = [measured[slug] for slug in shown_profiles(machine.tables) if slug in measured]
    return [
        {
            **row,
            **found[str(row["variant"])],
            "doubts": "; ".join(
                dict.fromkeys(
                    str(each["text"]) for each in failed if each["variant"] == row["variant"]
                )
            ),
            "configuration": _configuration(row),
        }
        for row in shown
    ]


def _configuration(row: Row) -> str:
    """Device, precision, whether DataLoader workers load, what is switched on, and how several
    devices share it.
    """
    return ", ".join(
        [
            device_words(row["device"]),
            str(row["precision"]),
            *(["DataLoader workers"] if row["workers"] else []),
            *([] if row["options"] == NO_OPTIONS else [str(row["options"])]),
            *([_on_devices(row)] if row["devices"] > 1 else []),
        ]
    )


def doubts_of(row: Row) -> list[str]:
    """The doubts about a profiled step, as one flag, where they leave a share out."""
    is_lost = any(name.endswith("_share") and math.isnan(row[name]) for name in row)
    return [row["doubts"]] if row["doubts"] and is_lost else []


def not_reliable(row: Row, metric: Metric) -> str:
    """What is in place of a number of a profiled step that failed a check; the CPU has none of an
    accelerator.
    """
    has_one = row["device"] != "cpu" or metric.column in _HOST_COLUMNS
    return NOT_RELIABLE if row["doubts"] and has_one and math.isnan(row[metric.column]) else ""


def efficiencies(machine: MachineResults) -> list[Row]:
    """The rows of EFFICIENCY with those of their variants; of each workload and device the one with
    the highest rate.
    """
    variants = {row["variant"]: row for row in machine.measured}
    rows = with_variants(machine.tables.efficiency, variants)
    return best_of_each(rows, "achieved_flops_per_s", "workload", "device")


def longest(steps: Sequence[Row], frame: "pd.DataFrame", most: int = 3) -> list[Row]:
    """The first rows of a trace table about each of the first profiled steps that have some, with
    the variant's own.
    """
    # Where both have a number, the interval beside the variant's is not that of the table's.
    bounds = {f"{column}_{end}" for column in frame.columns for end in ("low", "high", "count")}
    rows = grouped(rows_of(frame), lambda row: row["variant"])
    return [
        {**{key: value for key, value in step.items() if key not in bounds}, **row}
        for step in [step for step in steps if step["variant"] in rows][:_VARIANTS_WITH_LONGEST]
        for row in rows[step["variant"]][:most]
    ]


def profiled_heading(row: Row) -> str:
    """The model and the configuration of a profiled step, above what is listed of it."""
    return ", ".join([model_cell(row), batch_in_words(row), row["configuration"]])


def variant_cell(row: Row) -> str:
    """A configuration in full, at the beginning of a row."""
    return capitalized(described(row))


def sentinels(machine: MachineResults) -> list[Row]:
    """A row for each sentinel of the newest protocol: its `configuration` in full, its slowest and
    its fastest point, and what all its points share.
    """
    titles = {row["workload"]: row["workload_title"] for row in machine.variants}
    points = machine.tables.sentinels
    points = points[points["protocol_version"] == points["protocol_version"].max()]
    speeds = points.groupby("variant")["throughput_per_s"].agg(["min", "max"])
    return [
        {
            **row,
            "configuration": variant_cell(
                {
                    **vars(variant),
                    "optimization": variant.optimization,
                    "parallelism": variant.parallelism,
                    "workload_title": titles.get(variant.workload, row["workload_title"]),
                }
            ),
            "slowest_per_s": speeds["min"][row["variant"]],
            "fastest_per_s": speeds["max"][row["variant"]],
        }
        for row in rows_of(points.drop_duplicates("variant"))
        for variant in [Variant.from_slug(row["variant"])]
    ]


def without_sentinels(machine: MachineResults) -> str:
    """Which sessions have none, of how many configurations, as a sentence; empty where all do."""
    sentinels = rows_of(machine.tables.sentinels)
    watched = {row["session"] for row in sentinels if row["status"] == "ok"}
    rows = [row for row in machine.measured if row["session"] not in watched]
    if not rows:
        return ""
    sessions = listed([str(session) for session in sorted({row["session"] for row in rows})])
    of = counted(len(rows), "configuration")
    return f"Sessions without sentinels, of unknown drift: {sessions} ({of})."


def longest_kernels(steps: Sequence[Row], tables: Tables) -> list[Row]:
    """The kernels of the first shown variants, without what their traces do not say reliably."""
    unreliable = {
        (row["variant"], name.partition(".")[2])
        for row in rows_of(tables.trace_doubts)
        for name in str(row["spoils"]).split(", ")
        if name.startswith("kernels.")
    }
    rows: list[Row] = []
    for row in longest(steps, tables.top_kernels):
        lost = {
            column: NOT_RELIABLE
            for column in ("category", "operation")
            if (row["variant"], column) in unreliable and not row[column]
        }
        known = {**row, **lost}
        place = "" if "operation" in lost else str(row["source"] or row["module"])
        rows.append(
            {
                **known,
                "tc": row["tensor_cores"].replace("unknown", "?"),
                "launched by": ", ".join(filter(None, (str(known["operation"]), place))),
            }
        )
    return rows


def kernel_name(row: Row) -> str:
    """Without what it returns and the types of its arguments."""
    name = str(row["name"])
    if not name.startswith("void ") or not name.endswith(")"):
        return name
    depths = accumulate((char == ")") - (char == "(") for char in reversed(name))
    arguments = next((at for at, depth in enumerate(depths, start=1) if depth == 0), 0)
    return name[len("void ") : -arguments] if arguments else name


def failed_checks(tables: Tables) -> list[Row]:
    """The checks that traces failed, with how many did and the tables of which numbers are left
    out for it.
    """
    rows = sorted(rows_of(tables.trace_doubts), key=lambda row: str(row["check"]))
    checks: list[Row] = []
    for check, of_check in grouped(rows, lambda row: str(row["check"])).items():
        columns = [name for row in of_check for name in str(row["spoils"]).split(", ")]
        names = dict.fromkeys(name.partition(".")[0] for name in columns)
        variants = len({row["variant"] for row in of_check})
        left_out = ", ".join(filter(None, names)) or "nothing"
        checks.append({"check": check, "variants": variants, "left out": left_out})
    return checks


_LONGEST_HEADING = 100
"""Characters of a heading: what is longer fills the contents, where no entry breaks over a
column.
"""
_AXES = ("batch_size", "epochs", "steps_per_epoch")


def trained_models(records: Sequence[Record]) -> list[Mapping[str, Any]]:
    """One row per workload and size that could be built, in the order of the study: facts, and
    values trained with.

    Records that say other things of a workload, such as another learning rate, have a row each.
    """
    twins = grouped(
        [record for record in records if record.workload is not None],
        lambda record: (
            record.as_variant().size,
            *(value for name, value in _facts(record).items() if name != "chance"),
        ),
    )
    return [{**_facts(of_model[0]), **_values(of_model)} for of_model in twins.values()]


def _facts(record: Record) -> Mapping[str, Any]:
    facts, size = record.workload, record.as_variant().size
    if facts is None:
        return {}
    return {
        "workload": record.as_variant().workload,
        "title": capitalized(facts.title),
        "size": "" if size == "default" else size,
        "parameters": facts.parameters,
        "training samples": "its batch" if facts.begins_anew else facts.train_samples,
        "held out": facts.test_samples,
        "sample": facts.sample_description,
        "quality": (facts.quality_name or NOT_MEASURED)
        + (", lower is better" if facts.quality_better == "lower" else ""),
        "chance": quantity(
            math.nan if facts.quality_chance is None else facts.quality_chance
        ).plain(),
        "optimizer": facts.optimizer,
        "loss": facts.loss,
        "data": american(facts.data_description),
        "source_file": facts.source_file,
    }


def _values(records: Sequence[Record]) -> Mapping[str, str]:
    found = {
        axis: dict.fromkeys(getattr(record.as_variant(), axis) for record in records)
        for axis in _AXES
    }
    return {
        axis: ", ".join(
            value_words(axis, "whole" if axis == "steps_per_epoch" and value is None else value)
            # numbers by size; names in the order of the study
            for value in sorted(values, key=lambda value: value if isinstance(value, int) else 0)
        )
        for axis, values in found.items()
    }


def networks(models: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The facts of each workload, those of its first size, with the parameters of every size in
    words.

    Data that a workload above has too are described there alone.
    """
    has_data = {model["data"]: model["title"] for model in first_of_each(models, "data")}
    return [
        {
            **first,
            "heading": shorten(first["title"], _LONGEST_HEADING),
            "data": first["data"]
            if (title := has_data[first["data"]]) == first["title"]
            else f"Those of {title}.",
            "parameters_by_size": _parameters(of_workload),
            "sizes": list(dict.fromkeys(model["size"] for model in of_workload)),
        }
        for of_workload in grouped(models, itemgetter("workload")).values()
        for first in of_workload[:1]
    ]


def generated(models: Sequence[Mapping[str, Any]]) -> list[str]:
    """The workloads whose data are made by a generator, which the built-in ones say with their
    first word.
    """
    return [
        str(model["title"])
        for model in first_of_each(models, "workload")
        if model["data"].startswith("Generated")
    ]


def _parameters(models: Sequence[Mapping[str, Any]]) -> str:
    counts = [
        f"{count(model['parameters']).plain()} parameters"
        + (f" in size {model['size']}" if model["size"] else "")
        for model in models
    ]
    return ", ".join(dict.fromkeys(counts))
