"""What a record says of a rank that is killed, at every moment of its life, and whether a process is left.

Two ranks train a tiny model with gloo, started by one agent, then by two agents on this host; one rank kills itself
with SIGKILL, or is killed as soon as it exists. The last row kills one of the agents, as when a host loses its power.
"""

import argparse
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from gpu_report.errors import GpuReportError
from gpu_report.measure.hosts import ONE_HOST, Hosts
from gpu_report.measure.variant_run import measure_variant
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
"""By moment: the part of the workload or the function that is reached; the first is killed from outside."""

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
        expected = "ended without saying why" if self.killed == AGENT else "was ended by SIGKILL"
        if self.killed not in (AGENT, FIRST):
            expected = f"rank {self.killed} {expected}"
        return self.left == 0 and self.says.startswith("failed: ") and expected in self.says


def measured(hosts: Hosts, settings: dict[str, Any]) -> str:
    """What the record says, or the command where it has none."""
    variant = Variant(
        workload="tiny", strategy="ddp", devices=2, device="cpu", batch_size=4, steps_per_epoch=4, epochs=3
    )
    module = "tests.unit.measure.tiny_workloads"
    with tempfile.TemporaryDirectory() as folder:
        try:
            record = measure_variant(
                Measurement(
                    variant=variant,
                    workload=Workload(
                        name="tiny", class_path=f"{module}:GoesWrongInOneRank", settings={"what": "SIGKILL", **settings}
                    ),
                    protocol=Protocol(repetitions=1, profile_steps=2, timed_epochs=1, timed_seconds=0),
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
    """The server that forks runs is a child of this process; agents are its children, ranks are theirs."""
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
    all_hosts = [Hosts(count=agents, index=index, port=port) for index in range(agents)] if agents > 1 else [ONE_HOST]
    began_s = time.monotonic()
    if killed == FIRST:
        threading.Thread(target=kill_first_rank, daemon=True).start()
    with ThreadPoolExecutor() as commands:
        said = list(commands.map(lambda hosts: measured(hosts, settings), all_hosts))
    seconds = time.monotonic() - began_s
    left = sum(map(len, agents_and_ranks()))
    # The command of a killed agent has none; which of the two that is depends on who came first.
    says = next((each for each in said if not each.startswith("no record")), said[0])
    return Killed(agents=agents, moment=moment, killed=killed, says=says, left=left, seconds=seconds)


def cases(agents: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for moment, where in MOMENTS.items():
        if where:
            yield from ((moment, str(rank), {"where": where, "rank": rank}) for rank in (0, 1))
        else:
            yield moment, FIRST, {"where": ""}
    if agents > 1:
        yield "middle of an epoch", AGENT, {"where": "loss6", "what": "agent"}


def main() -> int:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    measured(ONE_HOST, {"where": "nowhere"})  # starts the server
    found = []
    print("agents  moment                     killed  left  seconds  the record says")
    for agents in (1, 2):
        for moment, killed, settings in cases(agents):
            found.append(each := kill(agents, moment, killed, settings))
            print(
                f"{agents:6}  {moment:25}  {killed:6}  {each.left:4}  {each.seconds:7.1f}  {each.says}",
                flush=True,
            )
    good = sum(each.is_as_promised for each in found)
    print(f"{good} of {len(found)}: failed, the rank or the host named, no process left")
    return 0 if good == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
