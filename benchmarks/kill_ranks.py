"""What a measurement says of a rank that is killed, at every moment of its life, and whether a
process is left.

Two ranks train a tiny model with gloo, started by one agent, then by two agents on this host; one
rank kills itself with SIGKILL, or is killed as soon as it exists. The last row kills one of the
agents, as when a host loses its power.

With --kills, `gpu-report run` trains a small CNN by two ranks in a copy of the project, again and
again; a rank, the agent, the server that forks or the command itself is killed at a random moment:
what is recorded, left, half written?
"""

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import psutil

from benchmarks.kill_campaign import ENTRY_POINT, Project
from benchmarks.report_time import copied_project
from gpu_report.errors import GpuReportError
from gpu_report.measure.hosts import ONE_HOST, Hosts
from gpu_report.measure.variant_run import measure_variant
from gpu_report.records.record import RECORD_FILE
from gpu_report.study.study import Measurement, Protocol, Workload
from gpu_report.study.variant import Variant

MOMENTS: Final = {
    "joining": "",
    "model built": "model",
    "data read": "train_data",
    "first forward pass": "forward",
    "first backward pass": "backward",
    "optimizer step": "step",
    "middle of an epoch": "loss6",
    "evaluation between epochs": "quality",
    "gathering at the end": "gather_ranks",
    "profiled run": "_export",
}
"""By moment: the part of the workload or the function that is reached; the first is killed from
outside.
"""

FIRST: Final = "first"
"""The first rank that exists, whichever that is."""
AGENT: Final = "agent"


@dataclass(frozen=True, kw_only=True)
class Killed:
    agents: int
    moment: str
    killed: str
    """The number of a rank, FIRST or AGENT."""
    says: str
    left: int
    seconds: float

    @property
    def is_as_promised(self) -> bool:
        expected = "is gone" if self.killed == AGENT else "was ended by SIGKILL"
        if self.killed not in (AGENT, FIRST):
            expected = f"rank {self.killed} {expected}"
        is_alone = ": failed" not in self.says and not self.says.startswith(("ok", "failed", "oom"))
        return (
            self.left == 0
            and is_alone
            and "ended from outside" in self.says
            and expected in self.says
        )


def measured(hosts: Hosts, settings: dict[str, Any]) -> str:
    """What the record says, or the command where it has none."""
    variant = Variant(
        workload="tiny",
        strategy="ddp",
        devices=2,
        device="cpu",
        batch_size=4,
        steps_per_epoch=4,
        epochs=3,
    )
    module = "tests.unit.measure.tiny_workloads"
    with tempfile.TemporaryDirectory() as folder:
        try:
            record = measure_variant(
                Measurement(
                    variant=variant,
                    workload=Workload(
                        name="tiny",
                        class_path=f"{module}:GoesWrongInOneRank",
                        settings={"what": "SIGKILL", **settings},
                    ),
                    protocol=Protocol(
                        repetitions=1, profile_steps=2, timed_epochs=1, timed_seconds=0
                    ),
                ),
                machine="here",
                trace_folder=Path(folder) / "trace",
                rich_trace_folder=Path(folder) / "rich_trace",
                hosts=hosts,
            )
        except GpuReportError as error:
            return f"no record: {error}"
    return f"{record.status}: {record.reason}"


def children_of(process: psutil.Process) -> Iterator[psutil.Process]:
    try:
        yield from process.children()
    except psutil.NoSuchProcess:
        return


def agents_and_ranks() -> tuple[list[psutil.Process], list[psutil.Process]]:
    """The server that forks runs is a child of this process; agents are its children, ranks are
    theirs.
    """
    agents = [agent for server in psutil.Process().children() for agent in children_of(server)]
    return agents, [rank for agent in agents for rank in children_of(agent)]


def kill_first_rank() -> None:
    while not (ranks := agents_and_ranks()[1]):
        time.sleep(0.002)
    ranks[0].kill()


def kill(agents: int, moment: str, killed: str, settings: dict[str, Any]) -> Killed:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    all_hosts = (
        [Hosts(count=agents, index=index, port=port) for index in range(agents)]
        if agents > 1
        else [ONE_HOST]
    )
    began_s = time.monotonic()
    if killed == FIRST:
        threading.Thread(target=kill_first_rank, daemon=True).start()
    with ThreadPoolExecutor() as commands:
        said = list(commands.map(lambda hosts: measured(hosts, settings), all_hosts))
    seconds = time.monotonic() - began_s
    left = sum(map(len, agents_and_ranks()))
    # Whatever is recorded is wrong; of two hosts the one whose agent was killed does not know of
    # the other.
    says = max(said, key=lambda each: (not each.startswith("no record"), "is gone" in each))
    return Killed(
        agents=agents, moment=moment, killed=killed, says=says, left=left, seconds=seconds
    )


def cases(agents: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for moment, where in MOMENTS.items():
        if where:
            yield from ((moment, str(rank), {"where": where, "rank": rank}) for rank in (0, 1))
        else:
            yield moment, FIRST, {"where": ""}
    if agents > 1:
        yield "middle of an epoch", AGENT, {"where": "loss6", "what": "agent"}


RANK: Final = "rank"
SERVER: Final = "server"
PARENT: Final = "parent"
VICTIMS: Final = (RANK, AGENT, SERVER, PARENT)
TRAINING: Final = (
    "cnn --size small --batch-size 32 --epochs 2 --steps-per-epoch 4 --parallelism ddp2 --device "
    "cpu"
)
RECORDED: Final = "--repetitions 3 --record --configfile config/ci.yaml"
BOTH_RANKS: Final = 2
MISTAKE: Final = 2
PATIENCE_S: Final = 120.0
LEAVING_S: Final = 20.0
"""What a killed process has started ends with it, after some seconds at most."""
COLUMNS: Final = (
    "kills",
    "recorded falsely",
    "left running",
    "half records",
    "tracebacks",
    "no line and status 2",
)


def started(project: Project) -> "subprocess.Popen[bytes]":
    project.temporary.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": str(project.folder / "src"),
        "TMPDIR": str(project.temporary),
    }
    shutil.rmtree(project.folder / "results/machines", ignore_errors=True)
    with project.log.open("wb") as log:
        return subprocess.Popen(
            [ENTRY_POINT, "run", "--workload", *TRAINING.split(), *RECORDED.split()],
            cwd=project.folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def found(command: "subprocess.Popen[bytes]", victim: str, chance: Random) -> psutil.Process | None:
    """The process to kill, as soon as it exists: an agent as soon as both of its ranks do."""
    parent = psutil.Process(command.pid)
    servers = [child for child in children_of(parent) if "forkserver" in " ".join(child.cmdline())]
    agents = [
        agent
        for server in servers
        for agent in children_of(server)
        if len(list(children_of(agent))) == BOTH_RANKS
    ]
    ranks = [rank for agent in agents for rank in children_of(agent)]
    of_kind = {RANK: ranks, AGENT: agents, SERVER: servers, PARENT: [parent]}[victim]
    return chance.choice(of_kind) if of_kind else None


def kill_one(project: Project, victim: str, chance: Random, *, span_s: float) -> Counter[str]:
    """Kill this victim at a moment of this span after it first exists; nothing is counted where it
    ended before.
    """
    command, delay_s = started(project), chance.uniform(0, span_s)
    seen_s: float | None = None
    struck = False
    while command.poll() is None and not struck:
        with suppress(psutil.Error):
            process = found(command, victim, chance)
            seen_s = time.monotonic() if seen_s is None and process else seen_s
            if process and seen_s is not None and time.monotonic() >= seen_s + delay_s:
                process.kill()
                struck = True
        time.sleep(0.01)
    with suppress(subprocess.TimeoutExpired):
        command.wait(PATIENCE_S)
    deadline_s = time.monotonic() + LEAVING_S
    while project.processes() and time.monotonic() < deadline_s:
        time.sleep(0.1)
    left, said = len(project.processes()), project.printed().splitlines()
    project.kill_all()
    command.wait()
    if not struck:
        return Counter()
    statuses, half = [], 0
    for path in (project.folder / "results/machines").glob("*/runs/*/record.json"):
        try:
            statuses.append(RECORD_FILE.read(path).status)
        except GpuReportError:
            half += 1
    is_said = (
        any(line.startswith("gpu-report: error: ") for line in said)
        and command.returncode == MISTAKE
    )
    print(
        f"{victim} {delay_s:.1f} s: status {command.returncode}, {statuses or 'no record'}: "
        f"{(said or [''])[-1][:150]}",
        file=sys.stderr,
        flush=True,
    )
    return Counter(
        {
            "kills": 1,
            "recorded falsely": sum(status != "ok" for status in statuses),
            "left running": left,
            "half records": half,
            "tracebacks": sum(line.startswith("Traceback") for line in said),
            # A result that was complete when a process was killed stays one.
            "no line and status 2": int(victim != PARENT and not is_said and statuses != ["ok"]),
        }
    )


def kill_often(kills: int, seed: int) -> int:
    """Print a table with a row for each victim; the exit status is 1 where anything but kills was
    counted.
    """
    chance = Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        project = Project(root=Path(folder).resolve(), configfile="")
        copied_project(project.folder)
        begun_s = time.monotonic()
        status = started(project).wait()
        span_s = time.monotonic() - begun_s
        print(f"without a kill: status {status} after {span_s:.0f} s", file=sys.stderr, flush=True)
        counts: dict[str, Counter[str]] = {victim: Counter() for victim in VICTIMS}
        while (number := sum(each["kills"] for each in counts.values())) < kills:
            victim = VICTIMS[number % len(VICTIMS)]
            counts[victim] += kill_one(project, victim, chance, span_s=0.8 * span_s)
    print(f"{'victim':8}" + "".join(f"{column:>22}" for column in COLUMNS))
    for victim, count in counts.items():
        print(f"{victim:8}" + "".join(f"{count[column]:>22}" for column in COLUMNS))
    return int(any(count[column] for count in counts.values() for column in COLUMNS[1:]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--kills",
        type=int,
        help="this many at random moments, by victim, instead of one at each moment",
    )
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    return kill_often(arguments.kills, arguments.seed) if arguments.kills else kill_at_each_moment()


def kill_at_each_moment() -> int:
    measured(ONE_HOST, {"where": "nowhere"})  # starts the server
    killed = []
    print("agents  moment                     killed  left  seconds  what is said")
    for agents in (1, 2):
        for moment, victim, settings in cases(agents):
            killed.append(each := kill(agents, moment, victim, settings))
            print(
                f"{agents:6}  {moment:25}  {victim:6}  {each.left:4}  {each.seconds:7.1f}  "
                f"{each.says}",
                flush=True,
            )
    good = sum(each.is_as_promised for each in killed)
    print(f"{good} of {len(killed)}: nothing recorded, the rank or the host named, no process left")
    return 0 if good == len(killed) else 1


if __name__ == "__main__":
    sys.exit(main())
