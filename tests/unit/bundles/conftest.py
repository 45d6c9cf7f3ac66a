"""A bundle as it is packed."""

from pathlib import Path

import pytest

from gpu_report.bundles.packing import pack
from tests.factories import make_study
from tests.machine_results import write_results

from .test_refusals import MACHINE, SLUG


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of one variant; copy it before changing anything."""
    folder = tmp_path_factory.mktemp("sound")
    results = write_results(folder / "machines", make_study(), machine=MACHINE, variants=[SLUG])
    pack(results, folder / "bundle.tar.xz", machine=MACHINE, study="default", with_traces=False)
    return folder / "bundle.tar.xz"
