"""`gpu-report reproduce`: measure configurations of a bundle on this machine, as many as fit into
some minutes, and report which of the bundle's claims they reproduce.

bundle -> claims, and why some cannot be tested here -> configurations measured, the most useful
first -> Reproduction
"""

import math
import shlex
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from gpu_report.bundles.unpacking import records_in, results_at
from gpu_report.commands.comparison import (
    Comparison,
    begin_files,
    bundle_in_words,
    reasons_of,
    the_first,
    write_comparison,
)
from gpu_report.commands.guarding import end_in_order
from gpu_report.commands.measuring import outcome, provide_image_files
from gpu_report.errors import BundleError, ConfigError
from gpu_report.glossary import TIME_TOLERANCE, Row
from gpu_report.measure.probe import require_pytorch
from gpu_report.measure.variant_run import measure_variant
from gpu_report.printing.number_format import counted, in_minutes, quantity, share
from gpu_report.printing.terminal import clean, say, stderr_to
from gpu_report.records.provenance import code_digest, measures_alike, workload_digest
from gpu_report.records.record import Record, read_points, with_distinct_titles
from gpu_report.storage.files import take_own_temporary_folder
from gpu_report.storage.locks import machine_to_itself
from gpu_report.study.catalogue import image_folder
from gpu_report.study.config import read_config
from gpu_report.study.machine import HERE, device_name, find_machine
from gpu_report.study.study import (
    PROTOCOL_VERSION,
    Measurement,
    Protocol,
    Study,
    Workload,
    load_study,
)
from gpu_report.tables.bundle import grouped
from gpu_report.tables.claims import FIRST_PROCESSES, Claim, process_s
from gpu_report.tables.processes import brings_loop, other_software, protocol_version
from gpu_report.tables.reproduction import (
    CONTRADICTED,
    NOT_TESTED,
    REPRODUCED,
    TOO_CLOSE,
    claims_of,
    most_useful,
    tabulate_reproduction,
    wanting,
)
from gpu_report.tables.sessions import sessions_of, spread_within, tabulate_sentinels
from gpu_report.tables.statistics import Spread
from gpu_report.tables.variants import in_reading_order
from gpu_report.words import in_words, titled


@dataclass(frozen=True, kw_only=True)
class Reproduction(Comparison):
    """Which claims of a bundle were reproduced: `before` is the bundle, `after` this machine."""

    sides: ClassVar[Sequence[str]] = ("bundle", "here")
    header: ClassVar[Sequence[str]] = ("claim", "claimed", "measured", "verdict")

    @property
    def status(self) -> int:
        """The exit status: 1 with a claim that is contradicted, 2 with one that is too close to
        call or where none was tested, else 0.
        """
        verdicts = {row["verdict"] for row in self.rows}
        if CONTRADICTED in verdicts:
            return 1
        return 2 if TOO_CLOSE in verdicts or verdicts <= {NOT_TESTED} else 0

    @property
    def headline(self) -> str:
        """How many claims have which verdict."""
        found = [row["verdict"] for row in self.rows]
        shown = [REPRODUCED, CONTRADICTED, TOO_CLOSE, *({NOT_TESTED} & {*found})]
        verdicts = ", ".join(f"{found.count(verdict)} {verdict}" for verdict in shown)
        return f"{counted(len(found), 'claim')}: {verdicts}"

    def sections(self) -> Iterator[tuple[str, list[list[str]], list[str]]]:
        """The claims of each kind that were tested."""
        rows = [row for row in self.rows if row["verdict"] != NOT_TESTED]
        for title, each in grouped(rows, lambda row: f"{row['compared']} ({row['unit']})").items():
            cells = [
                [row["configuration"], _cell(row, "before"), _cell(row, "after"), row["verdict"]]
                for row in each
            ]
            yield title, cells, reasons_of(each, the_first)

    @property
    def endings(self) -> list[str]:
        """What was not tested, a line for each reason, and the notes."""
        rows = [
            {**row, "configuration": f"{row['compared']} of {row['configuration']}"}
            for row in self.rows
            if row["verdict"] == NOT_TESTED
        ]
        return [*reasons_of(rows, the_first), *self.notes]


def _cell(row: Row, side: str) -> str:
    shown = quantity(row[side], low=row[f"{side}_low"], high=row[f"{side}_high"])
    return f"{shown.value} ± {shown.either_side}" if shown.either_side else shown.plain()


def reproduce(arguments: Namespace) -> int:
    """Measure what tests most of a bundle's claims, print the verdicts and return the exit status
    of `Reproduction`.

    Raises:
        ConfigError: the minutes are none, or fewer than the shortest test takes; or the study has
            none of the bundle's configurations.
        BundleError: it cannot be read, claims nothing, or nothing of it can be measured here.
        MachineError: PyTorch is not installed, or another measurement runs on this machine.
    """
    require_pytorch()
    began_s, minutes = time.monotonic(), arguments.minutes
    if not 0 < minutes < math.inf:
        raise ConfigError(f"--minutes: it is {minutes:g}; expected a positive number, such as 10")
    begin_files(arguments)
    config = read_config(arguments.configfile)
    take_own_temporary_folder()
    end_in_order()
    with ExitStack() as stack:
        stack.enter_context(machine_to_itself(limit_s=0))
        folder = stack.enter_context(results_at(arguments.bundle))
        records = with_distinct_titles(in_reading_order(records_in(folder).values()))
        study = _study_of(config, records)
        before = {
            variant.slug: record
            for record in records
            if (variant := record.as_variant()) in study.variants
        }
        if not before:
            raise ConfigError(
                f"{arguments.configfile} has no configuration of {arguments.bundle}; name the "
                "study that was measured by --configfile"
            )
        # Without a folder of results there is none afterwards.
        machine = find_machine(HERE if HERE.exists() else Path(tempfile.gettempdir(), HERE.name))
        points = read_points(folder)
        sessions = sessions_of(records, points)
        drift = spread_within(tabulate_sentinels(points, sessions.numbers))
        is_same = records[0].machine == machine.id
        claims = claims_of(study.experiments, before, sessions, is_same_machine=is_same)
        untestable = {
            slug: why
            for slug, record in before.items()
            if (why := _why_untestable(record, study, machine.devices))
        }
        testable = [claim for claim in claims if not claim.sides & untestable.keys()]
        if not testable:
            why = [*untestable.values(), "no difference between configurations is significant"][0]
            raise BundleError(
                f"{arguments.bundle}: none of its claims can be tested on {machine.id}: {why}"
            )
        here: dict[str, Record] = {}
        tabulate = partial(
            tabulate_reproduction,
            claims,
            before,
            here,
            untestable=untestable,
            spread=sessions.spread or drift,
            is_same_machine=is_same,
        )
        end_s, pace, spent_s, recorded_s = began_s + 60 * minutes, 1.0, 0.0, 0.0
        one_s = {slug: max(1.0, process_s(record)) for slug, record in before.items()}
        first_s = {slug: FIRST_PROCESSES * each for slug, each in one_s.items()}
        least_s = min(sum(first_s[side] for side in claim.sides) for claim in testable)
        if least_s > end_s - time.monotonic():
            raise ConfigError(
                f"--minutes: {minutes:g} is less than the shortest test takes, about "
                f"{in_minutes(least_s)}"
            )
        for note in study.foreign_code:
            say(note, to_stderr=True)
        terminal = stack.enter_context(stderr_to(Path(tempfile.gettempdir(), "reproduce.log")))
        while True:
            left_s = (end_s - time.monotonic()) / pace  # as the bundle's machine counts
            missing = [claim.sides.difference(here) for claim in testable]
            slug = most_useful(missing, first_s, left_s) or most_useful(
                wanting(tabulate(), before, here), one_s, left_s
            )
            if slug is None:
                break
            measurement, started_s = _measurement(before[slug]), time.monotonic()
            done = here[slug].repetitions if slug in here else []
            facts = here[slug].workload if done else None
            indices = range(len(done), len(done) + 1) if done else range(FIRST_PROCESSES)
            provide_image_files(measurement)
            record = measure_variant(
                measurement,
                machine=machine.id,
                trace_folder=Path(tempfile.gettempdir(), "traces"),
                is_profiled=False,
                processes=indices,
                pieces_of_stages=facts.pieces_of_stages if facts else (),
            )
            processes = [*done, *record.repetitions]
            here[slug] = record.model_copy(update={"repetitions": processes})
            spent_s += time.monotonic() - started_s
            recorded_s += len(indices) * one_s[slug]
            pace = spent_s / recorded_s
            left = in_minutes(max(0.0, end_s - time.monotonic()))
            print(clean(f"{slug}: {outcome(here[slug])}; {left} left"), file=terminal, flush=True)
    of_each = sorted({len(record.repetitions) for record in here.values()})
    counts = " to ".join(dict.fromkeys([f"{of_each[0]}", f"{of_each[-1]}"]))
    words = {slug: _fields_of(record) for slug, record in before.items()}
    software = [other_software(before[slug], record) for slug, record in here.items()]
    comparison = Reproduction(
        before=bundle_in_words(arguments.bundle, before),
        after=f"{machine.id}, {counted(len(here), 'configuration')} measured in {counts} processes",
        how=_method(sessions.spread, drift)
        if is_same
        else "other hardware: a ratio is reproduced if it has the claimed sign",
        rows=[
            {**row, "configuration": _in_words(claim, study, words)}
            for claim, row in tabulate().items()
        ],
        repeat=shlex.join(["gpu-report", *sys.argv[1:]]),
        notes=[
            f"other software: {text}, in the bundle and here"
            for text in dict.fromkeys(chain.from_iterable(software))
        ],
    )
    write_comparison(comparison, arguments)
    return comparison.status


def _study_of(config: Mapping[str, Any], records: Iterable[Record]) -> Study:
    """The study on a machine with the devices of these records, its configurations those alone."""
    variants = [record.as_variant() for record in records]
    devices = {
        name
        for variant in variants
        for index in range(variant.devices)
        for name in (variant.device, device_name(variant.device_type, index))
        if variant.device_type != "cpu"
    }
    study = load_study(config, devices=["cpu", *sorted(devices)], elsewhere=True)
    return study.restricted_to([variant.slug for variant in variants])


def _why_untestable(record: Record, study: Study, devices: Sequence[str]) -> str:
    """Why a configuration cannot be measured here as it was there; empty if it can."""
    variant, provenance = record.as_variant(), record.provenance
    class_path = str(record.measurement["workload"]["class_path"])
    named = study.workloads[variant.workload].class_path
    last = device_name(variant.device_type, variant.devices - 1) if variant.devices > 1 else ""
    reasons = {
        f"version {protocol_version(record)} of the protocol measured, and this gpu-report has "
        f"version {PROTOCOL_VERSION}; install the one that measured": (
            protocol_version(record) != PROTOCOL_VERSION
        ),
        f"other code measured, of gpu-report {provenance.package_version}, commit "
        f"{provenance.git_commit}; install that": (
            not measures_alike(provenance.code_digest, code_digest())
        ),
        # A bundle must not choose whose code runs.
        f"{class_path} was trained, and the configuration names {named}; name the study that was "
        "measured by --configfile": class_path != named,
        f"the code of {class_path} is not what was measured; use that version of it": (
            workload_digest(class_path) != provenance.workload_digest
        ),
        f"{record.hosts} hosts are needed": record.hosts > 1,
        f"this machine has no {last or variant.device}": (
            variant.device_type != "cpu" and not {variant.device, last} - {""} <= {*devices}
        ),
    }
    return next((why for why, applies in reasons.items() if applies), "")


def _measurement(record: Record) -> Measurement:
    """What was measured, as recorded, so that a configuration that has changed does not matter."""
    workload = Workload(**record.measurement["workload"])
    if workload.reads_image_files:  # a bundle must not choose a folder
        folder = {"folder": str(image_folder(workload.settings))}
        workload = replace(workload, settings={**workload.settings, **folder})
    protocol = Protocol(**record.measurement["protocol"])
    return Measurement(variant=record.as_variant(), workload=workload, protocol=protocol)


def _method(between: Spread | None, within: Spread | None) -> str:
    spread = between or within
    when = "between sessions" if between else "within its only session"
    drift = (
        f"{share(spread.deviation).plain()} {when}" if spread else "which the bundle does not have"
    )
    return (
        "a claim is reproduced if the new 95 % interval is within the claimed one, widened by "
        f"{share(TIME_TOLERANCE).plain()} and by the spread of sentinels ({drift}); metrics are "
        "compared seed by seed"
    )


def _fields_of(record: Record) -> Row:
    variant = record.as_variant()
    return {
        **asdict(variant),
        "steps_per_epoch": variant.steps_per_epoch or math.nan,
        "optimization": variant.optimization,
        "parallelism": variant.parallelism,
        "workload_title": record.workload.title if record.workload else variant.workload,
        "begins_anew": brings_loop(record),
    }


def _in_words(claim: Claim, study: Study, rows: Mapping[str, Row]) -> str:
    """What a claim is about: `U-Net (on the GPU): bf16 over fp32`."""
    compared = [each for each in study.experiments if each.name == claim.experiment]
    along = compared[0].compared_fields if compared else ()
    values = [
        in_words(each.axis, each.value_of(study.variant(slug)))
        for each in compared
        for slug in (claim.variant, claim.reference)
    ]
    title = titled(rows[claim.variant], [*rows.values()], leave_out=along)
    return ": ".join(filter(None, (title, " over ".join(values))))
