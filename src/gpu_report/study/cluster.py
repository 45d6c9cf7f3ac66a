"""The machines of a cluster: what a job has to ask for to get one, and what a job that got it found
it to be.

config/machines.yaml -> Request of each name -> a job there writes results/machines/<name>.json ->
Machine
"""

import os
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from gpu_report.errors import ConfigError, MachineError
from gpu_report.printing.number_format import counted
from gpu_report.study.config import read_config
from gpu_report.study.machine import (
    DESCRIPTIONS,
    Machine,
    describe_here,
    read_description,
    write_description,
)
from gpu_report.study.variant import Variant

REQUESTS: Final = Path("config/machines.yaml")
"""A cluster's machines by the name that a study's `machines` uses; there is no such file without a
cluster.
"""
_TAKEN: Final = ("here", "published")
JOB: Final = "SLURM_JOB_ID"
"""Environment variable that every job of Slurm has."""
ANSWER_S: Final = 10
"""How long Slurm may take to answer."""

AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each job on the machine asks for; `minutes` is its time limit: a configuration, search
    or calibration.

    `nodes` may share a training whose devices are more than a node has, each with these CPUs,
    memory and GPUs; every other job takes one. `exclusive` keeps other jobs off its nodes.
    `constraint` is a feature of the nodes. Texts that are left out are left to the cluster.
    """

    nodes: AtLeastOne = 1
    cpus: AtLeastOne
    memory_gib: Annotated[float, msgspec.Meta(gt=0)]
    minutes: AtLeastOne
    gpus: Annotated[int, msgspec.Meta(ge=0)] = 0
    gpu_model: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.]*\Z")] = ""
    partition: str = ""
    account: str = ""
    constraint: str = ""
    exclusive: bool = True

    def nodes_for(self, variant: Variant) -> int:
        """The fewest nodes that share a training equally and have its devices; 1 where none do.

        Without GPUs each node has one of its ranks; beside GPUs, what trains on the CPU takes one
        node.
        """
        on_cpus = variant.device_type == "cpu"
        if not variant.has_ranks or (on_cpus and self.gpus):
            return 1
        of_node = 1 if on_cpus else self.gpus
        return next(
            (
                nodes
                for nodes in range(1, self.nodes + 1)
                if variant.devices % nodes == 0 and variant.devices <= nodes * of_node
            ),
            1,
        )

    def resources(self, *, nodes: int = 1) -> dict[str, str | int | None]:
        """The resources of a Snakemake job on this many nodes, as its executor for Slurm names
        them.

        None is not asked for. On several nodes the job's command starts its own processes there.
        """
        are_several = nodes > 1
        return {
            "slurm_partition": self.partition or None,
            "slurm_account": self.account or None,
            "constraint": self.constraint or None,
            "gres": ":".join(("gpu", *filter(None, [self.gpu_model]), str(self.gpus)))
            if self.gpus
            else None,
            "nodes": nodes,
            "tasks": nodes if are_several else None,
            "tasks_per_gpu": 0 if are_several else None,  # else as many as `tasks` says
            "mpi": "srun" if are_several else None,
            "cpus_per_task": self.cpus,  # as `threads` is at most the head node's number of cores
            "mem_mb": round(self.memory_gib * 1024),
            "runtime": self.minutes,
            "slurm_extra": "--exclusive" if self.exclusive else None,
        }

    @property
    def selection(self) -> dict[str, str | int | bool]:
        """What decides which machine a job gets, and what it sees of it."""
        names = ("partition", "constraint", "gpus", "gpu_model", "cpus", "exclusive")  # a node's
        return {name: getattr(self, name) for name in names}

    @property
    def in_words(self) -> str:
        """As in `2 GPUs (h100) and 16 cores in the partition gpu, the node to itself, at most 60
        minutes each`.
        """
        gpus = (
            counted(self.gpus, "GPU") + (f" ({self.gpu_model})" if self.gpu_model else "") + " and "
        )
        return ", ".join(
            (
                f"{gpus if self.gpus else ''}{counted(self.cpus, 'core')}"
                + (f" in the partition {self.partition}" if self.partition else ""),
                *(["the node to itself"] if self.exclusive else []),
                f"at most {counted(self.minutes, 'minute')} each",
            )
        )


def read_requests(path: Path = REQUESTS) -> dict[str, Request]:
    """The cluster's machines by name; none where there is no file.

    Raises:
        ConfigError: the file cannot be read, or has a key or a value that is not allowed.
    """
    asked = read_config(path, example="docs/cluster.md") if path.exists() else {}
    return {name: _request(path, name, of_name) for name, of_name in asked.items()}


def _request(path: Path, name: Any, asked: Any) -> Request:
    # as study.schema.yaml allows it
    if not (isinstance(name, str) and re.fullmatch("[a-z0-9-]+", name)) or name in _TAKEN:
        raise ConfigError(
            f"{path}: {name!r} cannot be a machine's name; use lower-case letters, digits and -, "
            f"but not {' or '.join(_TAKEN)}"
        )
    try:
        request = msgspec.convert(asked, Request)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{path}: {name}: {error}; allowed are {', '.join(Request.__struct_fields__)}"
        ) from error
    if request.gpu_model and not request.gpus:
        raise ConfigError(
            f"{path}: {name}: gpu_model is {request.gpu_model}, but gpus is 0; say how many"
        )
    return request


def description_file(name: str) -> Path:
    """Where a job writes what the machine of this name is."""
    return DESCRIPTIONS / f"{name}.json"


def known_machine(name: str, request: Request) -> Machine | None:
    """The machine as a job with this request found it; None where none did."""
    return read_description(description_file(name), request.selection)


def job_facts() -> dict[str, str]:
    """What Slurm says of the job that this is in, as NumNodes and OverSubscribe; nothing outside of
    one.

    Snakemake's executor passes few of Slurm's variables on, so Slurm is asked.
    """
    if JOB not in os.environ:
        return {}
    with suppress(OSError, subprocess.TimeoutExpired):
        said = subprocess.run(
            ["scontrol", "show", "job", "--oneliner", os.environ[JOB]],
            capture_output=True,
            text=True,
            check=False,
            timeout=ANSWER_S,
        ).stdout
        return dict(re.findall(r"(\S+?)=(\S*)", said))
    return {}


def describe_machine(name: str, *, requests: Mapping[str, Request]) -> Machine:
    """Find out which machine this job has got, and write that down for the name.

    Raises:
        MachineError: this is not in a Slurm job, PyTorch could not be asked, or it finds another
            number of accelerators than the job asked for.
    """
    if JOB not in os.environ:
        raise MachineError(
            f"{name} is a cluster's machine, and this is not in a Slurm job; use --profile "
            "profiles/slurm"
        )
    machine, request = describe_here(), requests[name]
    found = len(machine.accelerators)
    if found != request.gpus:
        said = machine.accelerator_reason or ", ".join(each.name for each in machine.accelerators)
        raise MachineError(
            f"{name}: gpus is {request.gpus} in {REQUESTS}, and PyTorch finds {found} there: {said}"
        )
    write_description(description_file(name), request.selection, machine)
    return machine
