"""Settings for every test."""

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import settings

from gpu_report.study.machine import core_count

_WORKER_MEMORY_GIB = 2
"""What a worker takes at most, with PyTorch and the trainings that its tests start."""

# How long an example takes depends on what else the machine does, and no test asserts time. CI
# draws the same examples each time, so that a change is judged by what it changes; runs by hand
# draw new ones.
# `make test` draws 25 examples of each property; `make test-all` asks for the profile `thorough`.
settings.register_profile("project", max_examples=25, deadline=None, derandomize="CI" in os.environ)
settings.register_profile("thorough", settings.get_profile("project"), max_examples=200)
settings.load_profile("project")

# A shell that starts the tests in the background lets them ignore SIGINT, which every program that
# they start would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

if "PYTEST_XDIST_WORKER" in os.environ:
    # A worker has one core; PyTorch would start a thread for each of the machine's, and where two
    # trainings each start as many as there are cores, their threads wait for each other most of the
    # time.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("GPU_REPORT_THREADS", "1")
    # Measurements lock a file in the temporary folder. Workers measure side by side: no test
    # asserts time, and one that waited for another's training would say so where a test reads what
    # is printed.
    os.environ["TMPDIR"] = tempfile.mkdtemp(
        prefix=f"gpu-report-{os.environ['PYTEST_XDIST_WORKER']}-"
    )
    Path(os.environ["TMPDIR"]).chmod(0o755)  # as the system's: a test looks into it as another user
    tempfile.tempdir = None
    atexit.register(shutil.rmtree, os.environ["TMPDIR"], ignore_errors=True)


@pytest.fixture(autouse=True)
def temporary_folder_is_given_back() -> Iterator[None]:
    """A command that runs in the test's process takes a temporary folder of its own, for good."""
    folder, variable = tempfile.tempdir, os.environ.get("TMPDIR")
    yield
    tempfile.tempdir = folder
    if variable is None:
        os.environ.pop("TMPDIR", None)
    else:
        os.environ["TMPDIR"] = variable


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What builds whole studies comes first, all on one worker; the others begin with the many
    short tests.
    """
    longest_first = ("tests/workflow/test_ci_study", "tests/workflow")
    items.sort(key=lambda item: [part not in item.path.as_posix() for part in longest_first])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One for each core that these processes may run on, and no more than there is memory for."""
    free_gib = psutil.virtual_memory().available / 2**30
    return max(1, min(core_count(), int(free_gib / _WORKER_MEMORY_GIB)))


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Sockets below it have paths that a system takes; those below pytest's own folders do not."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
