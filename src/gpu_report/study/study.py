"""The study: what a configuration asks to be measured, as experiments made of variants.

config (mapping) -> Study -> Experiment -> Variant; a Measurement is a variant with all else that
decides its record.
"""

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Final, TypeVar

from gpu_report.errors import ConfigError
from gpu_report.study.catalogue import BUILT_IN_WORKLOADS, BuiltInWorkload, image_folder
from gpu_report.study.config import check_config
from gpu_report.study.machine import device_name
from gpu_report.study.modules import OUR_WORKLOADS, find_module
from gpu_report.study.options import (
    LOWER_PRECISIONS,
    NO_OPTIONS,
    Optimization,
    ladder,
    option_names,
)
from gpu_report.study.search import BatchSearch, check_search
from gpu_report.study.strategies import SINGLE, STRATEGIES, can_share, devices_and_strategy
from gpu_report.study.variant import AXIS_FIELDS, Variant

PROTOCOL_VERSION: Final = 4
"""Raised whenever a change in how a number is measured makes old records incomparable with new
ones.
"""
MOST_VARIANTS: Final = 1000
"""Several times what a report can show; at half a minute each, their measuring takes eight
hours.
"""
OF_SENTINELS: Final[Mapping[str, Any]] = {"repetitions": 2, "timed_seconds": 1.0}
"""What is otherwise in their protocol: they are measured often, so each time briefly."""


_Asked = TypeVar("_Asked", Variant, BatchSearch)


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How every variant is measured.

    A process times at least `timed_epochs` epochs after its warm-up, which together take
    `timed_seconds` or more, but not more than `most_timed_epochs`: where epochs take microseconds,
    these are enough for its median. Warm-up ends before the first epoch of at most `settled_ratio`
    of the median of those after it: what warms up makes an epoch several times longer, while epochs
    that the host paces differ by a tenth or more by chance alone.
    """

    version: int = PROTOCOL_VERSION
    repetitions: int
    profile_steps: int
    timed_epochs: int = 4
    timed_seconds: float = 3.0
    most_timed_epochs: int = 32
    most_warm_up_epochs: int = 8
    settled_ratio: float = 1.25


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A workload as configured: its class as `package.module:Class` and the keyword arguments it is
    built with.
    """

    name: str
    class_path: str
    settings: Mapping[str, Any]

    @property
    def built_in(self) -> BuiltInWorkload | None:
        """Its entry in the catalogue; None for a class of the user's own, whatever its name."""
        ours = BUILT_IN_WORKLOADS.get(self.name)
        return ours if ours is not None and ours.class_path == self.class_path else None

    @property
    def reads_image_files(self) -> bool:
        """Whether it trains on the image files that a rule writes to its folder."""
        return self.built_in is not None and self.built_in.reads_image_files


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Everything that decides a record; when any of it changes, the record is out of date."""

    variant: Variant
    workload: Workload
    protocol: Protocol

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as written into records.

        A variant of one plain process says nothing of strategies, as before there were any.
        """
        values = asdict(self)
        if self.variant.strategy == SINGLE:
            del values["variant"]["strategy"], values["variant"]["devices"]
        return values


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A question about one axis: variants that differ along it are compared with the one at the
    baseline.

    `target` is a held-out quality; the experiment then says how long each variant trained to reach
    it. One that searches has neither axis nor variants. Along an axis `optimization` that goes
    `through_precisions` the precision is one of the steps.
    """

    name: str
    question: str
    axis: str = ""
    baseline: Any = None
    target: float | None = None
    through_precisions: bool = False
    variants: tuple[Variant, ...] = ()
    searches: tuple[BatchSearch, ...] = ()

    @property
    def compared_fields(self) -> tuple[str, ...]:
        """The fields of a variant in which those that are compared differ."""
        precision = ("precision",) if self.through_precisions else ()
        return precision + AXIS_FIELDS.get(self.axis, (self.axis,))

    def value_of(self, variant: Variant) -> Any:
        """A variant's place on the axis."""
        return (
            variant.optimization_with_precision
            if self.through_precisions
            else getattr(variant, self.axis)
        )

    @property
    def is_search(self) -> bool:
        """Whether it searches, even if this machine has none of its searches."""
        return not self.axis


@dataclass(frozen=True, kw_only=True)
class Prices:
    """What a machine's time and its energy cost, for the cost of a run; None where no price is
    given.
    """

    currency: str = "EUR"
    per_device_hour: float | None = None
    per_kwh: float | None = None


@dataclass(frozen=True, kw_only=True)
class Study:
    """A checked configuration, expanded for the devices of one machine.

    An experiment whose rows all need an accelerator has no variants, or searches, on a machine
    without one.
    """

    name: str
    title: str
    protocol: Protocol
    prices: Prices
    workloads: Mapping[str, Workload]
    experiments: tuple[Experiment, ...]
    sentinels: tuple[Measurement, ...] = ()
    """Measured at the begin, on the way and at the end, to show how the machine drifts."""
    minutes: float | None = None
    """Time budget of measuring; without one, every variant is measured in all processes."""
    leave_out: tuple[str, ...] = ()
    """Sections of the report that are left out."""

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        """Every variant once, in the order of the experiments; a variant in two experiments is
        measured once.
        """
        return tuple(
            dict.fromkeys(
                variant for experiment in self.experiments for variant in experiment.variants
            )
        )

    def variant(self, slug: str) -> Variant:
        """The variant of that name.

        Raises:
            ConfigError: there is no such variant in the study.
        """
        return _named(slug, self.variants, "variant")

    @cached_property
    def searches(self) -> tuple[BatchSearch, ...]:
        """Every batch-size search once, in the order of the experiments."""
        return tuple(
            dict.fromkeys(
                search for experiment in self.experiments for search in experiment.searches
            )
        )

    def search(self, slug: str) -> BatchSearch:
        """The batch-size search of that name.

        Raises:
            ConfigError: there is no such search in the study.
        """
        return _named(slug, self.searches, "search")

    def measurement(self, slug: str) -> Measurement:
        """The variant of that name with its workload and protocol."""
        variant = self.variant(slug)
        return Measurement(
            variant=variant, workload=self.workloads[variant.workload], protocol=self.protocol
        )

    @property
    def trained_devices(self) -> list[str]:
        """Those of the variants and searches, each once."""
        asked: tuple[Variant | BatchSearch, ...] = (*self.variants, *self.searches)
        return list(dict.fromkeys(each.device for each in asked))

    @property
    def linked_devices(self) -> list[str]:
        """The accelerators that are to share a training, present or not; none where each trains
        alone.
        """
        shared = [
            (variant.devices, variant.device)
            for variant in self.variants
            if variant.device != "cpu"
        ]
        most, backend = max(shared, default=(1, ""))
        return [device_name(backend, index) for index in range(most)] if most > 1 else []

    def restricted_to(self, slugs: Collection[str]) -> "Study":
        """The study with these of its variants and searches alone; experiments that have none of
        them stay, empty.
        """
        experiments = tuple(
            replace(
                each,
                variants=tuple(variant for variant in each.variants if variant.slug in slugs),
                searches=tuple(search for search in each.searches if search.slug in slugs),
            )
            for each in self.experiments
        )
        used = {variant.workload for experiment in experiments for variant in experiment.variants}
        workloads = {name: workload for name, workload in self.workloads.items() if name in used}
        return replace(
            self, experiments=experiments, workloads=workloads, sentinels=(), minutes=None
        )

    def alone(self, experiment: str) -> "Study":
        """The study as if this were its only experiment, without sentinels, whose last points need
        every record.

        Raises:
            ConfigError: the machine has no variant and no search of it.
        """
        (chosen,) = (each for each in self.experiments if each.name == experiment)
        if not (chosen.variants or chosen.searches):
            raise ConfigError(
                f"experiments.{experiment}: the machine shown has no configuration of it; "
                "name another experiment, or give it rows for this machine"
            )
        return replace(self, experiments=(chosen,), sentinels=())

    def reported_alone(self, experiment: str) -> "Study":
        """The same, of an experiment that a report can be about.

        Raises:
            ConfigError: it searches, or the machine has no variant of it.
        """
        study = self.alone(experiment)
        if study.experiments[0].is_search:
            raise ConfigError(
                f"experiments.{experiment}: it searches batch sizes and trains no configuration, "
                "so it has no report of its own; build report/gpu_report.pdf"
            )
        return study

    @property
    def foreign_code(self) -> list[str]:
        """A line for each class of the user's own, whose module runs with the user's rights when it
        is measured.
        """
        return [
            f"workloads.{workload.name} runs the code of {workload.class_path}, as the "
            "configuration asks"
            for workload in {
                **{each.workload.name: each.workload for each in self.sentinels},
                **self.workloads,
            }.values()
            if not workload.class_path.startswith(OUR_WORKLOADS)
        ]

    @property
    def experiments_with_variants(self) -> tuple[Experiment, ...]:
        """Those that this machine can say something about."""
        return tuple(experiment for experiment in self.experiments if experiment.variants)


def _named(slug: str, asked: Sequence[_Asked], kind: str) -> _Asked:
    for each in asked:
        if each.slug == slug:
            return each
    known = ", ".join(each.slug for each in asked) or "none"
    raise ConfigError(f"{kind} {slug!r} is not in the study; use one of: {known}")


def load_study(
    config: Mapping[str, Any],
    *,
    devices: Sequence[str],
    nodes: int = 1,
    elsewhere: bool = False,
    has_bf16: bool = True,
) -> Study:
    """Check a configuration and expand it for a machine with these devices, the CPU first.

    As many nodes as `nodes` says, each with these devices, may share a training. With `devices:
    auto` the study takes one accelerator of a kind: `cuda` and not `cuda:1`, which can still be
    named. For a machine `elsewhere`, which has measured already, what is named and not there is
    passed over. `has_bf16` says whether its CPU computes in bf16 itself.

    Raises:
        ConfigError: an unknown key, an impossible value or variant, an unknown workload, or a
            device that is not there.
    """
    check_config(config)
    usable = _Devices(
        present=tuple(devices),
        chosen=tuple(device for device in devices if ":" not in device),
        accelerators=len({*devices} - {"cpu"}),
        nodes=nodes,
        refuse_absent=not elsewhere,
        has_bf16=has_bf16,
    )
    if config["devices"] != "auto":
        named = tuple(usable.named("devices", config["devices"]))
        usable = replace(usable, chosen=named, accelerators=len({*named} - {"cpu"}))
    workloads = {name: _workload(name, entry or {}) for name, entry in config["workloads"].items()}
    experiments = tuple(
        _expand_experiment(name, entry, devices=usable, seed=config["seed"], workloads=workloads)
        for name, entry in config["experiments"].items()
    )
    variants = {variant for each in experiments for variant in each.variants}
    searches = [search for each in experiments for search in each.searches]
    if len(variants) + len(searches) > MOST_VARIANTS:
        raise ConfigError(
            f"experiments: they ask for more than {MOST_VARIANTS} configurations; divide the study"
        )
    first: dict[str, BatchSearch] = {}
    for search in searches:
        if first.setdefault(search.slug, search) != search:
            raise ConfigError(
                f"experiments: {search.slug} is searched twice, with other seconds, maximum, "
                "multiple_of or margin; give one of them"
            )
    used = {variant.workload for variant in variants}
    sentinels: list[Variant] = []
    for position, row in enumerate(config.get("sentinels", ())):
        path = f"sentinels[{position}]"
        _check_workload_and_size(path, row, workloads)
        sentinels += _expand_row(
            path, row, devices=usable, seed=config["seed"], workloads=workloads
        )
    return Study(
        name=config["name"],
        title=config["title"],
        protocol=Protocol(**config["protocol"]),
        prices=Prices(**config.get("prices", {})),
        workloads={name: workload for name, workload in workloads.items() if name in used},
        experiments=experiments,
        sentinels=tuple(
            Measurement(
                variant=variant,
                workload=workloads[variant.workload],
                protocol=Protocol(**{**config["protocol"], **OF_SENTINELS}),
            )
            for variant in dict.fromkeys(sentinels)
        ),
        minutes=config.get("minutes"),
        leave_out=tuple(config.get("leave_out", ())),
    )


@dataclass(frozen=True, kw_only=True)
class _Devices:
    """PyTorch device names of a machine, the CPU first; `chosen` are those that a row takes where
    it names none.

    As many `accelerators` may share a training, on each of as many nodes as `nodes` says. A device
    that is named and not there is refused, or passed over where `refuse_absent` is false.
    """

    present: tuple[str, ...]
    chosen: tuple[str, ...]
    accelerators: int
    nodes: int
    refuse_absent: bool
    has_bf16: bool

    def named(self, key: str, names: Sequence[str]) -> list[str]:
        """Those of the named devices that can be used; `key` is where in the configuration they are
        named.

        Raises:
            ConfigError: one of them is not there, and that is refused.
        """
        absent = [
            name
            for name in names
            if name not in self.present and name.removesuffix(":0") not in self.present
        ]
        if absent and self.refuse_absent:
            raise ConfigError(
                f"{key}: device {absent[0]!r} is not present on this machine; use one of: "
                f"{', '.join(self.present)}"
            )
        return [name for name in names if name not in absent]


def _workload(name: str, entry: Mapping[str, Any]) -> Workload:
    settings = dict(entry)
    if "class" in settings:
        class_path = settings.pop("class")
        module = class_path.partition(":")[0]
        if find_module(module) is None:
            raise ConfigError(
                f"workloads.{name}.class: there is no module {module!r}; run this in its folder, "
                "or put that on PYTHONPATH"
            )
    elif name in BUILT_IN_WORKLOADS:
        class_path = BUILT_IN_WORKLOADS[name].class_path
        if BUILT_IN_WORKLOADS[name].reads_image_files:
            settings["folder"] = str(image_folder(settings))
    else:
        raise ConfigError(
            f"workloads.{name}: unknown workload; use one of {', '.join(BUILT_IN_WORKLOADS)}, or "
            "give it a class 'package.module:Class'"
        )
    return Workload(name=name, class_path=class_path, settings=settings)


def _expand_experiment(
    name: str,
    entry: Mapping[str, Any],
    *,
    devices: _Devices,
    seed: int,
    workloads: Mapping[str, Workload],
) -> Experiment:
    variants: list[Variant] = []
    searches: list[BatchSearch] = []
    optimizations = [
        each
        for row in entry["grid"]
        for each in [*row.get("ladder", []), *_as_list(row.get("optimization", []))]
    ]
    through_precisions = entry.get("axis") == "optimization" and any(
        part in LOWER_PRECISIONS for each in optimizations for part in option_names(each)
    )
    for position, row in enumerate(entry["grid"]):
        path = f"experiments.{name}.grid[{position}]"
        _check_workload_and_size(path, row, workloads)
        if through_precisions and "precision" in row:
            raise ConfigError(
                f"{path}.precision: an optimization or a ladder of this experiment names a "
                "precision; say all of them there, as in bf16+fused"
            )
        if "search" in entry:
            searches += _searches_of_row(path, row, devices=devices, workloads=workloads)
        else:
            variants += _expand_row(path, row, devices=devices, seed=seed, workloads=workloads)
    experiment = Experiment(
        name=name,
        question=entry["question"],
        axis=entry.get("axis", ""),
        baseline=entry.get("baseline"),
        target=entry.get("target"),
        through_precisions=through_precisions,
        variants=tuple(dict.fromkeys(variants)),
        searches=tuple(dict.fromkeys(searches)),
    )
    values = dict.fromkeys(map(experiment.value_of, experiment.variants))
    if values and devices.refuse_absent and experiment.baseline not in values:
        raise ConfigError(
            f"experiments.{name}.baseline: {experiment.baseline!r} is not among its values of "
            f"{experiment.axis}: {', '.join(map(str, values))}"
        )
    return experiment


def _check_workload_and_size(
    path: str, row: Mapping[str, Any], workloads: Mapping[str, Workload]
) -> None:
    for name in _as_list(row["workload"]):
        if name not in workloads:
            raise ConfigError(
                f"{path}.workload: {name!r} does not exist; use one of {', '.join(workloads)}, or "
                "add it to workloads"
            )
        built_in = workloads[name].built_in
        for size in _as_list(row.get("size", "default")):
            if built_in is not None and size not in built_in.sizes:
                problem = f"{name} has no size {size!r}" if "size" in row else f"{name} needs one"
                raise ConfigError(f"{path}.size: {problem}; use one of {', '.join(built_in.sizes)}")


def _expand_row(
    path: str,
    row: Mapping[str, Any],
    *,
    devices: _Devices,
    seed: int,
    workloads: Mapping[str, Workload],
) -> Iterator[Variant]:
    fields = dict(row)
    is_left_out = _is_left_out(fields, devices)
    on_cpu = fields.pop("on_cpu", {})
    optimizations = _optimizations_of_row(path, fields)
    strategies = _as_list(fields.pop("parallelism", SINGLE))
    try:
        # Strategies with their numbers of devices, and whether the row names the number.
        shared = [
            (*found, name[-1].isdigit())
            for name in strategies
            for found in devices_and_strategy(
                name, present=devices.accelerators, nodes=devices.nodes
            )
        ]
    except ConfigError as error:
        raise ConfigError(f"{path}.parallelism: {error}") from error
    per_process = fields.pop("batch_per_process", None)
    if (per_process is None) == ("batch_size" not in fields):
        raise ConfigError(
            f"{path}: give batch_size, the samples of a step of all devices, or batch_per_process"
        )
    if is_left_out:
        return
    fields = {
        "size": "default",
        "steps_per_epoch": None,
        "seed": seed,
        **fields,
        "batch_size": fields.get("batch_size", per_process),
        "device": _devices_of_row(path, row.get("device", "each"), devices),
    }
    asked = (
        math.prod(len(_as_list(value)) for value in fields.values())
        * len(optimizations)
        * len(shared)
    )
    if asked > MOST_VARIANTS:
        raise ConfigError(
            f"{path}: asks for {asked} configurations, of at most {MOST_VARIANTS} in a study; ask "
            "for fewer"
        )
    for values in itertools.product(*(_as_list(value) for value in fields.values())):
        chosen = dict(zip(fields, values, strict=True))
        built_in = workloads[chosen["workload"]].built_in
        for (strategy, count, is_named), optimization in itertools.product(shared, optimizations):
            if "device" not in row and not can_share(strategy, chosen["device"]):
                continue
            sharing = {"strategy": strategy, "devices": count}
            if per_process is not None:
                sharing["batch_size"] = chosen["batch_size"] * count
            if STRATEGIES[strategy].divides_batch:
                suits = (
                    per_process is not None
                    or chosen["batch_size"] % (count * optimization.accumulation) == 0
                )
            else:
                suits = built_in is None or count <= built_in.pieces
            if count > 2 and not is_named and not suits:
                continue  # the machine suggests this number, no row names it
            elsewhere = on_cpu if chosen["device"] == "cpu" else {}
            optimized = asdict(optimization)
            optimized["precision"] = optimization.precision or chosen.get("precision", "fp32")
            try:
                variant = Variant(**{**chosen, **optimized, **sharing, **elsewhere})
                if built_in is not None:
                    built_in.check(variant)
            except ConfigError as error:
                raise ConfigError(f"{path}: {error}") from error
            yield variant


def _searches_of_row(
    path: str, row: Mapping[str, Any], *, devices: _Devices, workloads: Mapping[str, Workload]
) -> Iterator[BatchSearch]:
    fields = dict(row)
    if _is_left_out(fields, devices):
        return
    fields["device"] = _devices_of_row(path, row.get("device", "each"), devices)
    for values in itertools.product(*(_as_list(value) for value in fields.values())):
        chosen = dict(zip(fields, values, strict=True))
        try:
            optimization = Optimization.from_name(chosen.get("optimization", NO_OPTIONS)).name
            search = BatchSearch(**{**chosen, "optimization": optimization})
            check_search(search, workloads[search.workload].built_in)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error
        yield search


def _is_left_out(fields: dict[str, Any], devices: _Devices) -> bool:
    """Takes the keys that say on which machines a row is measured out of it."""
    needed, unwanted, in_bf16 = (
        int(fields.pop("needs_accelerator", 0)),
        fields.pop("without_accelerator", False),
        fields.pop("needs_bf16_on_cpu", False),
    )
    has_accelerator = not set(devices.chosen) <= {"cpu"}
    present = devices.accelerators * devices.nodes if has_accelerator else 0
    return needed > present or (unwanted and has_accelerator) or (in_bf16 and not devices.has_bf16)


def _optimizations_of_row(path: str, fields: dict[str, Any]) -> list[Optimization]:
    """Takes the keys that say it out of the row: workers, optimization or ladder, one of them at
    most.
    """
    keys = [key for key in ("workers", "optimization", "ladder") if key in fields]
    if len(keys) > 1:
        raise ConfigError(
            f"{path}.{keys[1]}: {keys[0]} is given too; say all of it in {keys[1]}, as in "
            "workers4+pinned"
        )
    given = {key: _as_list(fields.pop(key)) for key in keys}
    try:
        names = ladder(given["ladder"]) if "ladder" in given else given.get("optimization", [])
        named = [Optimization.from_name(name) for name in names]
    except ConfigError as error:
        raise ConfigError(f"{path}.{keys[0]}: {error}") from error
    if "precision" in fields and any(each.precision for each in named):
        raise ConfigError(f"{path}.precision: {keys[0]} names a precision too; give one of them")
    return named or [Optimization(workers=workers) for workers in given.get("workers", [0])]


def _devices_of_row(path: str, device: str | list[str], devices: _Devices) -> list[str]:
    if device == "each":
        return list(devices.chosen)
    if device == "fastest":
        # The first accelerator, or the CPU.
        return [*(name for name in devices.chosen if name != "cpu"), *devices.chosen][:1]
    return devices.named(f"{path}.device", _as_list(device))


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
