"""Which code measured."""

import subprocess
import sys
from datetime import datetime

from gpu_report import __version__
from gpu_report.provenance import code_digest, find_provenance


def test_the_digest_is_the_same_in_every_process() -> None:
    command = [sys.executable, "-c", "from gpu_report.provenance import code_digest; print(code_digest())"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == code_digest()


def test_the_digest_needs_no_pytorch() -> None:
    program = "import sys, gpu_report.provenance as p; p.code_digest(); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_provenance_names_version_time_and_commit_together_with_its_state() -> None:
    provenance = find_provenance()
    assert provenance.package_version == __version__
    assert datetime.fromisoformat(provenance.measured_at).tzinfo is not None
    assert (provenance.git_commit is None) == (provenance.git_dirty is None)
