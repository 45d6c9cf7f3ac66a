"""Several hosts that share one training: the same command runs on each, and its environment says
which of them it is.

On every host torchrun's agent starts the ranks of that host's devices; the agents meet at a port of
host 0.
"""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from gpu_report.errors import MachineError
from gpu_report.study.cluster import ANSWER_S, JOB, job_facts
from gpu_report.study.variant import Variant

COUNT: Final = "GPU_REPORT_HOSTS"
INDEX: Final = "GPU_REPORT_HOST_INDEX"
RENDEZVOUS: Final = "GPU_REPORT_RENDEZVOUS"
"""Environment variables, since Snakemake and srun pass them on and the measuring rule's command
stays as it is.
"""
_STEP_NODES: Final = "SLURM_STEP_NUM_NODES"
_FIRST_PORT: Final = 20_000
_PORTS: Final = 20_000


@dataclass(frozen=True, kw_only=True)
class Hosts:
    """`count` hosts, this one being number `index` of them, from 0; they meet at this address of
    host 0.

    Host 0 writes the record; the others take part and write nothing. One host alone needs no
    address.
    """

    count: int = 1
    index: int = 0
    address: str = "localhost"
    port: int = 0

    @property
    def endpoint(self) -> str:
        """As a person writes it."""
        return f"{self.address}:{self.port}"

    def check(self, variant: Variant) -> None:
        """Refuse a variant that these hosts cannot share.

        Raises:
            MachineError: says why.
        """
        if self.count == 1:
            return
        if not variant.has_ranks:
            raise MachineError(
                f"{variant.slug}: one process trains this configuration, but {COUNT} is "
                f"{self.count}; unset it, or "
                "choose configurations with ddp or fsdp"
            )
        if variant.devices % self.count:
            raise MachineError(
                f"{variant.slug}: {variant.devices} devices cannot be shared equally by "
                f"{self.count} hosts ({COUNT})"
            )


ONE_HOST: Final[Hosts] = Hosts()


def nodes_to_share(variant: Variant) -> int:
    """The nodes of this job on which the variant is to be started, which srun has not done yet; 1
    where there are none.

    A job of Snakemake's on several nodes runs its command on the first of them.
    """
    if not variant.has_ranks or os.environ.get(_STEP_NODES, "1") != "1":
        return 1
    return int(job_facts().get("NumNodes", "1").partition("-")[0])


def start_on(nodes: int, command: Sequence[str]) -> NoReturn:
    """Become srun, which starts the command once on each node of this job.

    Raises:
        MachineError: there is no srun.
    """
    step = [
        "srun",
        f"--nodes={nodes}",
        f"--ntasks={nodes}",
        "--ntasks-per-node=1",
        "--kill-on-bad-exit=1",
    ]
    # Slurm's variables are not passed on to here, so all is said again.
    if cpus := job_facts().get("CPUs/Task"):
        step.append(f"--cpus-per-task={cpus}")
    environment = {
        name: value for name, value in os.environ.items() if name not in (COUNT, INDEX, RENDEZVOUS)
    }
    try:
        os.execvpe("srun", [*step, *command], environment)
    except OSError as error:
        raise MachineError(
            f"srun cannot be started on the {nodes} nodes of this job: {error.strerror}"
        ) from error


def _hosts_of_step() -> Hosts:
    """The nodes of this step of a Slurm job, which meet at the first of them.

    Raises:
        MachineError: a node has not exactly one task, or the first node is not known.
    """
    count, tasks = os.environ[_STEP_NODES], os.environ.get("SLURM_STEP_NUM_TASKS", "")
    if tasks != count:
        raise MachineError(
            f"srun started {tasks or 'several'} tasks on {count} nodes; start one on each, with "
            "--ntasks-per-node=1: it starts a process for each device itself"
        )
    nodes = os.environ.get("SLURM_STEP_NODELIST", "")
    try:
        address, *_ = subprocess.run(
            ["scontrol", "show", "hostnames", nodes],
            capture_output=True,
            text=True,
            check=True,
            timeout=ANSWER_S,
        ).stdout.split()
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise MachineError(
            f"scontrol does not say which is the first of the nodes {nodes!r}; set {COUNT}, "
            f"{INDEX} and {RENDEZVOUS}"
        ) from error
    return Hosts(
        count=int(count),
        index=int(os.environ["SLURM_PROCID"]),
        address=address,
        # Jobs that share the first node need different ports.
        port=_FIRST_PORT + int(os.environ[JOB]) % _PORTS,
    )


def hosts_of_environment() -> Hosts:
    """The hosts that the environment asks for; one where it asks for none.

    Where srun has started this on several nodes, these are the hosts, unless the environment says
    otherwise.

    Raises:
        MachineError: a variable is missing or has an impossible value, or srun has not started one
            task on each node.
    """
    given = {name: os.environ[name] for name in (COUNT, INDEX, RENDEZVOUS) if os.environ.get(name)}
    if not given and os.environ.get(_STEP_NODES, "1") != "1":
        return _hosts_of_step()
    if not given or given.get(COUNT) == "1":
        return ONE_HOST
    missing = [name for name in (COUNT, INDEX, RENDEZVOUS) if name not in given]
    if missing:
        # Else a host whose scheduler has dropped a variable would train alone, and nobody would
        # notice.
        raise MachineError(
            f"{' and '.join(given)} set, but not {' and '.join(missing)}; every host needs all "
            "three"
        )
    count, index = (
        int(given[name]) if re.fullmatch("[0-9]{1,5}", given[name]) else -1
        for name in (COUNT, INDEX)
    )
    if count < 1:
        raise MachineError(
            f"{COUNT}={given[COUNT]!r} is not a valid number of hosts; set it to 2 or more, or "
            "unset it"
        )
    if not 0 <= index < count:
        raise MachineError(
            f"{INDEX}={given[INDEX]!r} is not one of 0 to {count - 1}; set it to 0 on the first "
            "host"
        )
    address, _, port = given[RENDEZVOUS].rpartition(":")
    if not (address and re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) < 2**16):
        raise MachineError(
            f"{RENDEZVOUS}={given[RENDEZVOUS]!r} is not an address; set it to host 0's, as "
            "node1:29500"
        )
    return Hosts(count=count, index=index, address=address.strip("[]"), port=int(port))
