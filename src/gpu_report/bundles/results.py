"""One machine's results, wherever they are: a bundle, its folder of results, or a folder that holds
one such folder.

path -> results_at -> folder with runs/<configuration>/record.json -> records by name
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpu_report.bundles.manifest import RECORD_NAME
from gpu_report.bundles.unpacking import unpack
from gpu_report.errors import BundleError
from gpu_report.records.record import RECORD_FILE, Record

_RUNS = f"runs/*/{RECORD_NAME}"


@contextmanager
def results_at(path: Path) -> Iterator[Path]:
    """The folder of a machine's results; that of a bundle is temporary.

    Raises:
        BundleError: there is no bundle and no such folder, the bundle cannot be trusted, or the
            folder holds the results of several machines.
    """
    if path.is_dir():
        yield _folder_in(path)
    else:
        with tempfile.TemporaryDirectory(prefix="gpu-report-bundle-") as folder:
            yield unpack(path, Path(folder)).folder


def _folder_in(path: Path) -> Path:
    found = sorted(
        {
            record.parents[2]
            for start in ("", "*/", "*/*/")
            for record in path.glob(f"{start}{_RUNS}")
        }
    )
    if not found:
        raise BundleError(
            f"{path} holds no results; name a bundle, or a folder of results/machines"
        )
    if len(found) > 1:
        raise BundleError(
            f"{path} holds the results of {len(found)} machines; name one of them, such as "
            f"{found[0]}"
        )
    return found[0]


def records_in(folder: Path) -> dict[str, Record]:
    """Every record of a machine's folder of results by the name of its configuration, in the order
    of the names.

    Raises:
        RecordError: one cannot be read.
    """
    records = [RECORD_FILE.read(path) for path in sorted(folder.glob(_RUNS))]
    return {record.variant: record for record in records}
