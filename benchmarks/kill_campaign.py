"""Whether a study survives `kill -9`: random kills over the whole of a small one, and what they
leave on disk.

copy of the project -> uninterrupted build, which times each rule -> a second copy, built and killed
-> comparison

Each round removes or changes a part of what was built, starts the command that a user types, waits
for a rule and a random part of its time, and kills the whole process tree, Snakemake alone, or one
process of the rule. After one to three such rounds the same command runs to its end. What the
uninterrupted build measured is also published as a bundle of another machine, so that there is one
to import. Each copy has a TMPDIR of its own; nothing changes in the project.
"""

import argparse
import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median_low
from typing import Final

import psutil
import yaml

from benchmarks.report_time import PDF, copied_project
from gpu_report.answers.finding import FINDINGS, read_findings
from gpu_report.bundles.packing import pack
from gpu_report.bundles.shown_machines import BUNDLE_SUFFIX, PUBLISHED
from gpu_report.errors import GpuReportError
from gpu_report.records.calibration import CALIBRATION_FILE
from gpu_report.records.record import RECORD_FILE
from gpu_report.storage.columns import Table
from gpu_report.tables import STUDY_TABLES
from gpu_report.tables.experiments import EXPERIMENT
from gpu_report.tables.variants import COMPARISON
from gpu_report.traces.tables import TRACE_TABLES
from gpu_report.writing.numbers import NUMBERS

ENTRY_POINT: Final = Path(sys.executable).parent / "gpu-report"
TINY: Final = "tests/workflow/tiny/tiny.yaml"
OTHER_MACHINE: Final = "abacus-8c"
CORES: Final = 2

STARTING: Final = "snakemake starting"
BETWEEN_RULES: Final = "between two rules"
WHOLE_TREE: Final = "whole tree"
SNAKEMAKE: Final = "snakemake"
COMMAND: Final = "command"
VICTIMS: Final = (WHOLE_TREE, SNAKEMAKE, COMMAND)

MEASURING: Final = "measure_variant"
RULES_OF_COMMANDS: Final = {"calibrate": "calibrate_machine", "unpack": "import_bundle"}
"""Commands of gpu-report that do not have the name of their rule."""
READ_BY_THE_PDF: Final = frozenset({MEASURING, *RULES_OF_COMMANDS.values()})
AFTER_CALIBRATION: Final = "tabulate_calibration"
LAST_RULES: Final = ("compile_report", "write_tensorboard_logs")

LATEX_FOLDER: Final = Path("report/build")
RECORDS: Final = "results/machines/*/runs/*/record.json"
CALIBRATIONS: Final = "results/machines/*/calibration.json"

KEPT_SHARE: Final = 0.5
MOST_KILLS_IN_A_ROW: Final = 3
LONGEST_TITLE: Final = 80
POLL_S: Final = 0.03
PATIENCE_S: Final = 180.0
"""After a kill of one process the others may run this long before they are killed too."""


@dataclass(frozen=True, kw_only=True)
class Project:
    """A copy of the project and a temporary folder of its own; `configfile` is relative to the
    copy.
    """

    root: Path
    configfile: str

    @property
    def folder(self) -> Path:
        return self.root / "project"

    @property
    def temporary(self) -> Path:
        return self.root / "temporary"

    @property
    def log(self) -> Path:
        """What the latest command printed."""
        return self.root / "snakemake.log"

    @contextmanager
    def started(self, *options: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Snakemake in a session of its own; it has ended at the end of the block."""
        self.temporary.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "PATH": os.pathsep.join(
                [str(self.root.parent), str(ENTRY_POINT.parent), os.environ["PATH"]]
            ),
            "PYTHONPATH": os.pathsep.join(
                [str(self.folder / "src"), str((self.folder / self.configfile).parent)]
            ),
            "TMPDIR": str(self.temporary),
        }
        command = ["snakemake", "--cores", str(CORES), "--configfile", self.configfile, *options]
        with (
            self.log.open("wb") as log,
            subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as snakemake,
        ):
            try:
                yield snakemake
            finally:
                if snakemake.poll() is None:
                    self.kill_all()

    def run(self, *options: str) -> int:
        """Run Snakemake to its end and return its exit status."""
        with self.started(*options) as snakemake:
            return snakemake.wait()

    def printed(self) -> str:
        return self.log.read_text("utf-8", errors="replace")

    def is_built(self, *targets: str) -> bool:
        """Whether a dry run plans no job."""
        return self.run("--dry-run", "--", *targets) == 0 and "Nothing to be done" in self.printed()

    def processes(self) -> list[psutil.Process]:
        """Every process that runs for this copy: its TMPDIR is that of the copy, or a folder
        inside.
        """
        return [
            process
            for process in psutil.process_iter(["environ"])
            if Path((process.info["environ"] or {}).get("TMPDIR", "")).is_relative_to(
                self.temporary
            )
        ]

    def kill_all(self) -> None:
        while processes := self.processes():
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.kill()


@dataclass(frozen=True, kw_only=True)
class CleanBuild:
    """An uninterrupted build: how long a job takes by state, in the order of the first jobs, and
    the outputs.
    """

    project: Project
    job_times_s: Mapping[str, float]
    outputs: Mapping[str, Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Kill:
    """`state` is the rule that ran; `half_written` has one line for each file that is not whole
    afterwards.
    """

    state: str
    victim: str
    half_written: tuple[str, ...]
    outlived: bool
    """Whether something that was not killed was still running after PATIENCE_S."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """Kills in a row and the command that was let run after them; `problems` say why it did not
    complete.
    """

    kills: tuple[Kill, ...]
    problems: tuple[str, ...]
    builds: int


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """All series, what is wrong with the last PDF, and the paths that the uninterrupted build does
    not have.
    """

    states: tuple[str, ...]
    series: tuple[Series, ...]
    final_problems: tuple[str, ...]
    leftovers: tuple[str, ...]

    @property
    def kills(self) -> list[Kill]:
        return [kill for each in self.series for kill in each.kills]

    @property
    def completed(self) -> list[Kill]:
        return [kill for each in self.series if not each.problems for kill in each.kills]

    @property
    def problems(self) -> list[str]:
        half_written = [line for kill in self.kills for line in kill.half_written]
        return [
            *half_written,
            *(line for each in self.series for line in each.problems),
            *self.final_problems,
        ]

    def lines(self) -> Iterator[str]:
        yield _row("state hit", "kills", *VICTIMS, "half-written", "completed")
        for state in self.states:
            kills = [kill for kill in self.kills if kill.state == state]
            yield _row(
                state,
                len(kills),
                *(sum(kill.victim == victim for kill in kills) for victim in VICTIMS),
                sum(len(kill.half_written) for kill in kills),
                sum(kill.state == state for kill in self.completed),
            )
        yield (
            f"{len(self.kills)} kills, {sum(each.builds for each in self.series)} builds, "
            "completed: "
            f"{'all' if len(self.completed) == len(self.kills) else len(self.completed)}, "
            f"half-written {sum(len(kill.half_written) for kill in self.kills)}, leftovers "
            f"{len(self.leftovers)}"
        )
        if outlived := sum(kill.outlived for kill in self.kills):
            yield (
                f"after {outlived} kills of one process another one was still running "
                f"{PATIENCE_S:.0f} s later"
            )
        for pattern, count in Counter(map(pattern_of, self.leftovers)).items():
            yield f"left over: {pattern}, {count} of them"
        yield from (f"problem: {line}" for line in self.problems)


def _row(state: str, kills: object, *cells: object) -> str:
    return f"{state:<24}{kills:>6}" + "".join(f"{cell:>14}" for cell in cells)


def build_clean(project: Project) -> CleanBuild:
    """Build the study, publish it as a bundle of another machine, and build what that adds."""
    alone = build_timed(project)
    publish_as_of_another_machine(project)
    beside = build_timed(project)
    if not project.is_built():
        sys.exit(f"{project.printed()}\nafter an uninterrupted build there are still jobs to run")
    return CleanBuild(
        project=project,
        job_times_s={
            state: median_low(alone.get(state, []) + beside.get(state, []))
            for state in {**alone, **beside}
        },
        outputs=outputs_of(project),
    )


def build_timed(project: Project) -> dict[str, list[float]]:
    """Build, and return the times of the jobs of each rule in seconds, and that of Snakemake's
    start.
    """
    begun = time.monotonic()
    spans_s: dict[tuple[str, int], tuple[float, float]] = {}
    with project.started() as snakemake:
        while snakemake.poll() is None:
            now_s = time.monotonic() - begun
            for rule, command in running_commands(snakemake).items():
                spans_s.setdefault((STARTING, snakemake.pid), (0.0, now_s))
                first_s, _ = spans_s.get((rule, command.pid), (now_s, now_s))
                spans_s[rule, command.pid] = first_s, now_s
            time.sleep(POLL_S)
    if snakemake.returncode != 0:
        sys.exit(f"{project.printed()}\nan uninterrupted build failed")
    times_s: dict[str, list[float]] = {}
    for (state, _), (first_s, last_s) in spans_s.items():
        times_s.setdefault(state, []).append(last_s - first_s)
    return times_s


def running_commands(snakemake: "subprocess.Popen[bytes]") -> dict[str, psutil.Process]:
    """The commands of gpu-report that run now, by rule, without the shells around them and what
    they forked.
    """
    found: dict[str, psutil.Process] = {}
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(snakemake.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                match process.cmdline():
                    case [_, program, *words] if Path(program).name == "gpu-report" and words:
                        command = words[1] if words[0] == "stage" else words[0]
                        found.setdefault(
                            RULES_OF_COMMANDS.get(command, command.replace("-", "_")), process
                        )
    return found


def publish_as_of_another_machine(project: Project) -> None:
    (results,) = (folder for folder in project.folder.glob("results/machines/*") if folder.is_dir())
    study = yaml.safe_load((project.folder / project.configfile).read_text("utf-8"))["name"]
    with tempfile.TemporaryDirectory() as temporary:
        other = Path(temporary) / OTHER_MACHINE
        shutil.copytree(results, other)
        for path in other.rglob("*.json"):
            path.write_text(
                path.read_text("utf-8").replace(f'"{results.name}"', f'"{OTHER_MACHINE}"'), "utf-8"
            )
        bundle = project.folder / PUBLISHED / f"{OTHER_MACHINE}{BUNDLE_SUFFIX}"
        pack(other, bundle, machine=OTHER_MACHINE, study=study, with_traces=False, allow_dirty=True)


def outputs_of(project: Project) -> dict[str, list[str]]:
    """The files and folders that each rule makes, as Snakemake lists them."""
    project.run("--summary")
    lines = project.printed().splitlines()
    header = next(number for number, line in enumerate(lines) if line.startswith("output_file\t"))
    outputs: dict[str, list[str]] = {}
    for row in csv.DictReader(lines[header:], delimiter="\t"):
        outputs.setdefault(row["rule"], []).append(row["output_file"])
    return outputs


def carry_out(project: Project, clean: CleanBuild, *, kills: int, seed: int) -> Campaign:
    """Kill this often, then compare with the uninterrupted build.

    The same seed gives the same plan; how far a job has come at a moment is the machine's affair.
    """
    series: list[Series] = []
    rounds = planned_rounds(list(clean.job_times_s), seed)
    while (missing := kills - sum(len(each.kills) for each in series)) > 0:
        series.append(kill_and_complete(project, clean, rounds, most_kills=missing))
        if series[-1].problems:
            if not series[-1].kills:
                break
            begin_again(project, clean, number=len(series))
    return Campaign(
        states=(*clean.job_times_s, BETWEEN_RULES),
        series=tuple(series),
        final_problems=tuple(stale_pdf(project)),
        leftovers=tuple(leftovers_of(project, clean)),
    )


def planned_rounds(states: Sequence[str], seed: int) -> Iterator[tuple[str, Random]]:
    """A state and what the round draws from; every state comes once before any comes again, so that
    kills spread.
    """
    chance = Random(seed)
    while True:
        for state in chance.sample(states, len(states)):
            yield state, Random(chance.getrandbits(64))


def kill_and_complete(
    project: Project, clean: CleanBuild, rounds: Iterator[tuple[str, Random]], *, most_kills: int
) -> Series:
    """Some rounds in a row, of which each may end without a kill, and then the command without a
    kill.
    """
    kills: list[Kill] = []
    wanted, chance = next(rounds)
    in_a_row = min(most_kills, chance.randint(1, MOST_KILLS_IN_A_ROW))
    for number in range(in_a_row):
        if number:
            wanted, chance = next(rounds)
        make_work(project, clean, wanted=wanted, chance=chance)
        killed = kill_once(
            project, wanted=wanted, job_time_s=clean.job_times_s[wanted], chance=chance
        )
        kills += [killed] if killed else []
    problems = tuple(problems_of_a_build(project))
    say(f"to the end: {'; '.join(problems) or 'completed'}")
    return Series(kills=tuple(kills), problems=problems, builds=in_a_row + 1)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def make_work(project: Project, clean: CleanBuild, *, wanted: str, chance: Random) -> None:
    """Remove or change something, so that the wanted rule has to run.

    Snakemake misses only what the job of a missing file reads, so an output is removed together
    with the report where the report reads it. Other rules run after a change in a record or the
    calibration; then the old report stays until the new one is made, or, every other time, is
    removed with an output of the rule.
    """
    rule = wanted if wanted in clean.outputs else chance.choice(list(clean.outputs))
    if rule not in READ_BY_THE_PDF:
        measured = sorted(
            project.folder.glob(CALIBRATIONS if rule == AFTER_CALIBRATION else RECORDS)
        )
        for path in chance.sample(measured, min(1, len(measured))):
            path.write_text(path.read_text("utf-8") + "\n", "utf-8")
        if chance.random() < KEPT_SHARE:
            return
    output = project.folder / chance.choice(clean.outputs[rule])
    remove(output.parent if rule == MEASURING else output)
    for name in (name for last in LAST_RULES for name in clean.outputs[last]):
        remove(project.folder / name)


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def kill_once(project: Project, *, wanted: str, job_time_s: float, chance: Random) -> Kill | None:
    """Start the command and kill at a random moment of the wanted state; None if the build ends
    before that.
    """
    delay_s, victim = chance.uniform(0, job_time_s), chance.choice(VICTIMS)
    with project.started() as snakemake:
        if not reached(wanted, snakemake, delay_s=delay_s):
            say(f"no kill: the build ended before {wanted} could be killed")
            return None
        commands = running_commands(snakemake)
        state = wanted if wanted in commands else next(iter(commands), "")
        victim = strike(project, snakemake, commands.get(state), victim=victim, chance=chance)
        outlived = not ended(project, snakemake)
    state = state or (STARTING if wanted == STARTING else BETWEEN_RULES)
    half = (*half_written(project.folder), *stale_pdf(project))
    say(
        f"{state}: killed {victim} {delay_s:.1f} s after {wanted} began; "
        f"{'; '.join(half) or 'nothing half-written'}"
    )
    return Kill(state=state, victim=victim, half_written=half, outlived=outlived)


def reached(wanted: str, snakemake: "subprocess.Popen[bytes]", *, delay_s: float) -> bool:
    """Wait until the wanted state has lasted this long; False if Snakemake ends before that."""
    begun = time.monotonic() if wanted == STARTING else None
    while snakemake.poll() is None:
        if begun is None and wanted in running_commands(snakemake):
            begun = time.monotonic()
        if begun is not None and time.monotonic() - begun >= delay_s:
            return True
        time.sleep(POLL_S)
    return False


def strike(
    project: Project,
    snakemake: "subprocess.Popen[bytes]",
    command: psutil.Process | None,
    *,
    victim: str,
    chance: Random,
) -> str:
    """Kill, and return what was killed: the whole tree where the command has ended already."""
    if victim == SNAKEMAKE:
        snakemake.kill()
        return SNAKEMAKE
    if victim == COMMAND and command:
        with suppress(psutil.NoSuchProcess):
            process = chance.choice([command, *command.children(recursive=True)])
            title = " ".join(process.cmdline())
            process.kill()
            say(f"one process of the rule: {title[:LONGEST_TITLE]}")
            return COMMAND
    project.kill_all()
    return WHOLE_TREE


def ended(project: Project, snakemake: "subprocess.Popen[bytes]") -> bool:
    """Wait until nothing runs for this copy any more; False if that takes too long, and then the
    rest is killed.
    """
    given_up_at = time.monotonic() + PATIENCE_S
    while project.processes():
        if time.monotonic() > given_up_at:
            project.kill_all()
            return False
        snakemake.poll()
        time.sleep(POLL_S)
    return True


def half_written(folder: Path) -> Iterator[str]:
    """A line for each file in its place that is not whole; hidden names and LaTeX's own folder are
    no such place.
    """
    for path in sorted(
        path for part in ("results", "report") for path in (folder / part).rglob("*")
    ):
        name = path.relative_to(folder)
        in_place = (
            not any(part.startswith(".") for part in name.parts)
            and LATEX_FOLDER not in name.parents
        )
        if in_place and (reader := reader_of(path)):
            try:
                reader(path)
            except GpuReportError as error:
                yield f"{name}: {error}"


def reader_of(path: Path) -> Callable[[Path], object] | None:
    """What refuses such a file unless it is whole; None for other files."""
    by_name: dict[str, Callable[[Path], object]] = {
        "record.json": RECORD_FILE.read,
        "calibration.json": CALIBRATION_FILE.read,
        "findings.json": read_findings,
    }
    by_suffix: dict[str, Callable[[Path], object]] = {".csv": read_table, ".pdf": read_pdf}
    return by_name.get(path.name) or by_suffix.get(path.suffix)


def read_table(path: Path) -> Sequence[object]:
    """The rows of any table in results, or of the report's list of numbers.

    Raises:
        GpuReportError: the file is cut short or does not hold the table's columns.
    """
    if not path.read_bytes().endswith(b"\n"):
        raise GpuReportError("its last line is cut short")
    if path.name == "numbers.csv":
        return NUMBERS.read_rows(path)
    tables: dict[str, Iterable[Table]] = {"trace_tables": TRACE_TABLES, "tables": STUDY_TABLES}
    known = {table.name: table for table in tables.get(path.parent.name, (COMPARISON, FINDINGS))}
    return known.get(path.stem, EXPERIMENT).read_rows(path)


def read_pdf(path: Path) -> bytes:
    """The bytes of a whole PDF.

    Raises:
        GpuReportError: its begin or its end is missing.
    """
    content = path.read_bytes()
    if not (content.startswith(b"%PDF") and content.rstrip().endswith(b"%%EOF")):
        raise GpuReportError("it does not begin with %PDF and end with %%EOF")
    return content


def copy_folder(project: Project, copy: Project) -> None:
    """All but sockets, which cannot be copied: the process that measures has one until it ends."""
    without = shutil.ignore_patterns("*.socket")
    shutil.copytree(project.folder, copy.folder, symlinks=True, ignore=without)


def stale_pdf(project: Project) -> Iterator[str]:
    """A line if Snakemake takes the PDF for up to date, and the files that it is made from give
    another one.
    """
    if not (project.folder / PDF).exists():
        return
    with tempfile.TemporaryDirectory() as temporary:
        shutil.copy2(project.root.parent / ENTRY_POINT.name, temporary)
        copy = Project(root=Path(temporary) / "copy", configfile=project.configfile)
        copy_folder(project, copy)
        if not copy.is_built(PDF):
            return
        if copy.run("--force", "--", PDF) != 0:
            yield f"{PDF}: Snakemake takes it for up to date, but it cannot be compiled again"
        elif (copy.folder / PDF).read_bytes() != (project.folder / PDF).read_bytes():
            yield f"{PDF}: Snakemake takes it for up to date, but compiling again gives another one"


def problems_of_a_build(project: Project) -> Iterator[str]:
    """Run the command to its end, and say what it lacks of a complete build."""
    if project.run() != 0:
        yield f"the next command failed: {' | '.join(project.printed().splitlines()[-5:])}"
        return
    yield from half_written(project.folder)
    for path in sorted(project.folder.glob(RECORDS)):
        record = RECORD_FILE.read(path)
        if record.status != "ok":
            yield f"{record.variant}: {record.status}: {record.reason}"
    if not (project.folder / PDF).exists():
        yield f"{PDF}: missing after the command completed"
    if not project.is_built():
        yield "the next command completed, but a dry run still plans jobs"


def begin_again(project: Project, clean: CleanBuild, *, number: int) -> None:
    """Put the copy that cannot be completed aside, and go on from the uninterrupted build."""
    project.folder.rename(project.root / f"incomplete-{number}")
    copy_folder(clean.project, project)


def leftovers_of(project: Project, clean: CleanBuild) -> list[str]:
    """Files and folders that the uninterrupted build lacks; of a folder that it lacks, only the
    folder itself.

    A folder that a rule makes as a whole may hold other figures and tables, since they depend on
    what was measured: there only hidden names count.
    """
    folders = {Path(output) for outputs in clean.outputs.values() for output in outputs}
    extra = {
        path
        for part in ("results", "report", "temporary")
        for path in paths_in(project, part) - paths_in(clean.project, part)
        if path.name.startswith(".") or folders.isdisjoint(path.parents)
    }
    return sorted(path.as_posix() for path in extra if path.parent not in extra)


def paths_in(project: Project, part: str) -> set[Path]:
    """Everything in results, report or the temporary folder, whose paths begin with TMPDIR."""
    if part == "temporary":
        return {
            Path("TMPDIR") / path.relative_to(project.temporary)
            for path in project.temporary.rglob("*")
        }
    return {path.relative_to(project.folder) for path in (project.folder / part).rglob("*")}


def pattern_of(leftover: str) -> str:
    """The path with a star for the eight random characters that `tempfile` puts into a name."""
    return re.sub(r"([.-]|/tmp|/snakemake)[a-z0-9_]{8}(?=(\.unfinished)?$)", r"\1*", leftover)


def campaign_in(root: Path, *, configfile: str, kills: int, seed: int) -> Campaign:
    """Make both copies in this folder, build one, and kill in the other."""
    clean, killed = (
        Project(root=root / name, configfile=configfile) for name in ("clean", "killed")
    )
    copied_project(clean.folder)
    shutil.copy2(
        ENTRY_POINT, root
    )  # of the same moment as the sources, whatever is installed meanwhile
    shutil.copytree(clean.folder, killed.folder, symlinks=True)
    built = build_clean(clean)
    say(", ".join(f"{state} {job_time_s:.1f} s" for state, job_time_s in built.job_times_s.items()))
    shutil.copytree(clean.folder / PUBLISHED, killed.folder / PUBLISHED, dirs_exist_ok=True)
    return carry_out(killed, built, kills=kills, seed=seed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--configfile", default=TINY, help="relative to the project")
    parser.add_argument(
        "--keep", type=Path, help="a new folder for the copies, which then stay for inspection"
    )
    arguments = parser.parse_args()
    if arguments.keep and arguments.keep.exists():
        parser.error(f"{arguments.keep} exists; name a new folder")
    print(
        f"snakemake --cores {CORES} --configfile {arguments.configfile}, seed {arguments.seed}",
        flush=True,
    )
    begun = time.monotonic()
    with nullcontext(arguments.keep) if arguments.keep else tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        campaign = campaign_in(
            root, configfile=arguments.configfile, kills=arguments.kills, seed=arguments.seed
        )
    print("\n".join([*campaign.lines(), f"took {(time.monotonic() - begun) / 60:.0f} min"]))
    return 1 if campaign.problems or campaign.leftovers else 0


if __name__ == "__main__":
    sys.exit(main())
