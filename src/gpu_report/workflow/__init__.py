"""The rules of Snakemake, from configuration to PDF; the Snakefile of a study includes them."""

import os
import sys
from pathlib import Path
from typing import Final

RULES: Final = str(Path(__file__).with_name("study.smk"))


def import_also_from(folder: Path) -> None:
    """Find a study's own workloads in this folder too, after the present one, in this process and
    those that it starts.
    """
    sys.path.insert(0, str(Path.cwd()))
    before = filter(None, [os.environ.get("PYTHONPATH")])
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *before])
