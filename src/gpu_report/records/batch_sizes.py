"""What a batch-size search found on one machine: every number of samples it tried, and three
answers, in a schema.

batch_sizes/<search>.json -> SearchRecord -> Tried, one per number of samples -> throughput of each
timed block
                                          -> Answers, where one of them fits
"""

from typing import Final

from pydantic import Field

from gpu_report.errors import RecordError
from gpu_report.records.record import Environment, MachineId, MemoryKind, Provenance, Status
from gpu_report.storage.json_files import (
    JsonFile,
    NotNegative,
    Part,
    Positive,
    PositiveCount,
    Text,
    Values,
)
from gpu_report.study.search import BatchSearch

SEARCHES_FOLDER: Final = "batch_sizes"
"""In a machine's folder of results: a file for each search."""
SCHEMA_VERSION: Final = 1


class Tried(Part):
    """One number of samples in a fresh process, and what came of it."""

    samples: PositiveCount = Field(description="Of one batch.")
    status: Status
    reason: Text = Field(
        description="Why it does not fit or was not trained; empty of one that fits."
    )
    throughputs_per_s: Values[Positive] = Field(
        description=(
            "Of each timed block of steps; one value of a step too slow for blocks; empty unless "
            "it fits."
        )
    )
    memory_peak_mib: NotNegative | None = Field(description="None unless it fits.")
    memory_taken_mib: NotNegative | None = Field(
        description=(
            "The most that it took of its limit: on an accelerator what PyTorch reserved; None "
            "unless it fits."
        )
    )
    memory_limit_mib: Positive | None = Field(
        description="That the process might take; None unless it fits."
    )

    @property
    def fits(self) -> bool:
        return self.status == "ok"


class Answers(Part):
    """Numbers of samples of those that fit."""

    largest: PositiveCount
    is_resolved: bool = Field(
        description="Whether one failed that is larger by no more than 2 %, or no larger one is "
        "allowed."
    )
    fastest: PositiveCount | None = Field(
        description="The most samples per second; None where others used the CPU meanwhile."
    )
    smallest_near_fastest: PositiveCount | None = Field(
        description="The smallest that the search called nearly as fast; the table finds it anew. "
        "None likewise."
    )


class SearchRecord(Part):
    """One search on one machine; without answers where not even the smallest number of samples
    could be trained.
    """

    schema_version: int
    machine: MachineId
    search: BatchSearch = Field(description="As asked.")
    memory_kind: MemoryKind | None = Field(
        description="That of the peaks; None where nothing fits."
    )
    tries: Values[Tried] = Field(min_length=1, description="In their order.")
    answers: Answers | None
    environment: Environment = Field(description="Software and hardware as found.")
    provenance: Provenance

    @property
    def status(self) -> Status:
        """That of the last try where none fits."""
        return "ok" if self.answers else self.tries[-1].status

    @property
    def reason(self) -> str:
        """Why none fits; empty where one does."""
        return "" if self.answers else self.tries[-1].reason


SEARCH_FILE: Final = JsonFile(
    name="batch-size search",
    content=SearchRecord,
    version=SCHEMA_VERSION,
    error=RecordError,
    again="delete it and run the same command again to search anew",
)
