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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, TextIO

from gpu_report.bundles.unpacking import records_in, results_at
from gpu_report.commands.comparison import (
    Comparison,
    bundle_in_words,
    reasons_of,
    the_first,
    write_comparison,
)
from gpu_report.commands.guarding import end_in_order
from gpu_report.commands.measuring import measure_unprofiled, outcome, provide_image_files
from gpu_report.errors import (
    BundleError,
    ConfigError,
    GpuReportError,
)
from gpu_report.glossary import TIME_TOLERANCE, Row
from gpu_report.measure.probe import require_pytorch
from gpu_report.measure.processes import MeasurementInterruptedError
from gpu_report.printing.number_format import counted, in_minutes, quantity, share
from gpu_report.printing.terminal import clean, say, stderr_to
from gpu_report.records.provenance import measures_alike
from gpu_report.records.record import (
    SINCE_MEASURED,
    Record,
    SentinelPoint,
    differing,
    read_points,
    with_distinct_titles,
)
from gpu_report.storage.locks import machine_to_itself
from gpu_report.study.config import read_config
from gpu_report.study.machine import HERE, Machine, device_name, find_machine
from gpu_report.study.study import Study, load_study
from gpu_report.tables.bundle import grouped
from gpu_report.tables.claims import FIRST_PROCESSES, Claim, Z, further_process_s, process_s
from gpu_report.tables.marks import Today, is_same_class
from gpu_report.tables.processes import class_of
from gpu_report.tables.reproduction import (
    CONTRADICTED,
    NOT_TESTED,
    REPRODUCED,
    TOO_CLOSE,
    claims_of,
    most_useful,
    tabulate_reproduction,
    wanting,
    why_not_testable,
)
from gpu_report.tables.sessions import Sessions, sessions_of
from gpu_report.tables.variants import VARIANTS, in_reading_order, variant_row
from gpu_report.tables.verdicts import environment_differences
from gpu_report.words import in_words, titled

_MOST_DEVICES: Final = 1024


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


@dataclass(frozen=True, kw_only=True)
class _Bundle:
    """What a bundle claims: its records and why some configurations cannot be measured here, both
    by name.
    """

    study: Study
    records: Mapping[str, Record]
    claims: Sequence[Claim]
    untestable: dict[str, str]
    sessions: Sessions
    is_same_machine: bool

    @property
    def testable(self) -> list[Claim]:
        """The claims that processes on this machine may decide."""
        return [
            claim
            for claim in self.claims
            if not why_not_testable(claim, self.records, self.untestable)
        ]

    def rows(self, here: Mapping[str, Record]) -> dict[Claim, Row]:
        """The row of each claim, with what was measured here so far."""
        return tabulate_reproduction(
            self.claims,
            self.records,
            here,
            untestable=self.untestable,
            sessions=self.sessions,
            is_same_machine=self.is_same_machine,
        )


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
    config = read_config(arguments.configfile)
    end_in_order()
    with ExitStack() as stack:
        stack.enter_context(machine_to_itself(limit_s=0))
        folder = stack.enter_context(results_at(arguments.bundle))
        records = with_distinct_titles(in_reading_order(records_in(folder).values()))
        # Without a folder of results there is none afterwards.
        machine = find_machine(HERE if HERE.exists() else Path(tempfile.gettempdir(), HERE.name))
        bundle = _read(records, read_points(folder), config, machine)
        if not bundle.testable:
            reasons = [
                "the bundle has no configuration of this study; use --configfile to name the study "
                "that was measured",
                "no difference between configurations is significant",
            ]
            untested = [
                why_not_testable(claim, bundle.records, bundle.untestable)
                for claim in bundle.claims
            ]
            why = next(iter(untested), reasons[bool(bundle.records)])
            raise BundleError(
                f"{arguments.bundle}: none of its claims can be tested on {machine.id}: {why}"
            )
        first_s = {slug: FIRST_PROCESSES * process_s(each) for slug, each in bundle.records.items()}
        shortest_s = min(sum(first_s[side] for side in claim.needs) for claim in bundle.testable)
        too_short = (
            f"--minutes: {minutes:g} is too short for a single test; the shortest took "
            f"{in_minutes(shortest_s)} where the bundle was measured"
        )
        if time.monotonic() + shortest_s > began_s + 60 * minutes:
            raise ConfigError(too_short)
        for note in bundle.study.foreign_code:
            say(note, to_stderr=True)
        terminal = stack.enter_context(stderr_to(Path(tempfile.gettempdir(), "reproduce.log")))
        here = _measured(bundle, first_s, machine.id, began_s + 60 * minutes, terminal)
    if not here and bundle.testable:
        raise ConfigError(f"{too_short}, and takes longer here")
    today = Today.of(bundle.study, bundle.records)
    made = [variant_row(each, today=today) for each in bundle.records.values()]
    words = {row["variant"]: row for row in VARIANTS.checked(made)}
    unknown = len(records) - len(bundle.records)
    comparison = Reproduction(
        before=bundle_in_words(arguments.bundle, {each.variant: each for each in records}),
        after=f"{machine.id}, {counted(len(here), 'configuration')} measured",
        how=_method(bundle),
        rows=[
            {**row, "configuration": _in_words(claim, bundle.study, words)}
            for claim, row in bundle.rows(here).items()
        ],
        repeat=shlex.join(["gpu-report", *sys.argv[1:]]),
        notes=[
            *environment_differences(bundle.records, here),
            *(
                [f"{unknown} of the bundle's configurations are not in {arguments.configfile}"]
                if unknown
                else []
            ),
        ],
    )
    write_comparison(comparison, arguments)
    return comparison.status


def _read(
    records: Sequence[Record],
    points: Sequence[SentinelPoint],
    config: Mapping[str, Any],
    machine: Machine,
) -> _Bundle:
    """What the configurations of a bundle claim that are in this study, which is expanded for a
    machine with the devices of these records.
    """
    variants = [record.as_variant() for record in records]
    devices = {
        name
        for variant in variants
        for index in range(min(variant.devices, _MOST_DEVICES))
        for name in (variant.device, device_name(variant.device_type, index))
        if variant.device_type != "cpu"
    }
    whole = load_study(config, devices=["cpu", *sorted(devices)], elsewhere=True)
    study = whole.restricted_to([variant.slug for variant in variants])
    known = {record.variant: record for record in records if record.as_variant() in study.variants}
    sessions = sessions_of(records, points)
    is_same = {record.machine for record in records} == {machine.id}
    return _Bundle(
        study=study,
        records=known,
        claims=claims_of(study.experiments, known, sessions, is_same_machine=is_same),
        untestable={
            slug: why
            for slug, record in known.items()
            if (why := _why_untestable(record, study, machine.devices))
        },
        sessions=sessions,
        is_same_machine=is_same,
    )


def _measured(
    bundle: _Bundle, first_s: Mapping[str, float], machine: str, end_s: float, terminal: TextIO
) -> dict[str, Record]:
    """The records of what was measured here until the time is over or no claim waits; one whose
    measuring raises is untestable from then on. `first_s` is what the first processes of each took
    there.
    """

    def stop_in_time(_: object) -> None:
        if time.monotonic() > end_s:
            raise TimeoutError

    here: dict[str, Record] = {}
    further_s = {slug: further_process_s(record) for slug, record in bundle.records.items()}
    with suppress(TimeoutError):
        while True:
            left_s = end_s - time.monotonic()
            missing = [
                claim.needs.difference(here)
                for claim in bundle.testable
                if all(here[side].status == "ok" for side in claim.needs & here.keys())
            ]
            slug = most_useful(missing, first_s, left_s) or most_useful(
                wanting(bundle.rows(here), bundle.records, here), further_s, left_s
            )
            if slug is None:
                break
            measurement, before = bundle.study.measurement(slug), here.get(slug)
            done = before.repetitions if before else []
            took = in_minutes((further_s if done else first_s)[slug])
            print(clean(f"{slug}: measuring; took {took} in the bundle"), file=terminal, flush=True)
            try:
                provide_image_files(measurement)
                record = measure_unprofiled(
                    measurement,
                    machine=machine,
                    on_progress=stop_in_time,
                    processes=1 if done else FIRST_PROCESSES,
                    after=before,
                )
            except MeasurementInterruptedError:
                raise
            except GpuReportError as error:
                bundle.untestable[slug] = str(error)
                continue
            here[slug] = record.model_copy(update={"repetitions": [*done, *record.repetitions]})
            left = in_minutes(max(0.0, end_s - time.monotonic()))
            print(clean(f"{slug}: {outcome(here[slug])}; {left} left"), file=terminal, flush=True)
    return here


def _why_untestable(record: Record, study: Study, devices: Sequence[str]) -> str:
    """Why a configuration cannot be measured here as it was there; empty if it can.

    What the study asks for is measured, so that a bundle chooses no code, setting or folder.
    """
    variant, asked = record.as_variant(), study.measurement(record.variant).as_dict()
    asked["protocol"]["repetitions"] = record.measurement["protocol"]["repetitions"]
    changed = differing(record.measurement, asked, words=SINCE_MEASURED)
    if changed:
        return f"{'; '.join(changed)}; use --configfile to name the study that was measured"
    code, today = record.provenance, Today.of(study, [record.variant])
    if not measures_alike(code.code_digest, today.code_digest):
        return (
            f"the bundle was measured by gpu-report {code.package_version}"
            + f", commit {code.git_commit}" * bool(code.git_commit)
            + "; use that version"
        )
    if not is_same_class(record, today):
        return (
            f"the code of {class_of(record)[0]} has changed since it was measured; use that "
            "version of it"
        )
    if record.hosts > 1:
        return f"the configuration needs {record.hosts} hosts"
    last = device_name(variant.device_type, variant.devices - 1) if variant.devices > 1 else ""
    needed = {variant.device, last} - {"", "cpu"}
    is_here = variant.device_type == "cpu" or needed <= {*devices}
    return "" if is_here else f"this machine has no {last or variant.device}"


def _method(bundle: _Bundle) -> str:
    if not bundle.is_same_machine:
        return (
            "other hardware: a ratio is reproduced if it is significantly on the claimed side of 1"
        )
    by = share(TIME_TOLERANCE).plain()
    spreads = sorted(bundle.sessions.spreads)
    widths = [share(Z * math.sqrt(2) * each.deviation).plain() for each in spreads]
    found = (
        " and by the spread between sessions of the sentinels whose processes vary about as much "
        f"as the claim's ({' or '.join(widths)})"
        if widths
        else "; the spread between sessions is not known"
    )
    return (
        f"a claim is reproduced if the new 95 % interval is within the claimed one, widened by {by}"
        f"{found}; held-out metrics are compared seed by seed"
    )


def _in_words(claim: Claim, study: Study, rows: Mapping[str, Row]) -> str:
    """What a claim is about: `U-Net (on the GPU): bf16 over fp32`."""
    sides, among = list(filter(None, (claim.variant, claim.reference))), [*rows.values()]
    for each in study.experiments:
        if each.name == claim.experiment:
            values = [
                rows[slug]["workload_title"]
                if each.axis == "workload"
                else in_words(each.axis, each.value_of(study.variant(slug)))
                for slug in sides
            ]
            if len({*values}) > 1:
                title = titled(rows[claim.variant], among, leave_out=each.compared_fields)
                return f"{title}: {' over '.join(values)}"
    return " over ".join(titled(rows[slug], among, leave_out=()) for slug in sides)
