"""The command that writes the files of a study, so that it needs no checkout."""

import os
import re
from argparse import Namespace
from importlib import resources
from pathlib import Path
from typing import Final

from gpu_report import __version__
from gpu_report.errors import ConfigError
from gpu_report.printing.terminal import say
from gpu_report.storage.files import write_errors

_LINK_OUT: Final = re.compile(r"\[([^]]+)\]\(\.\./[^)]*\)")
"""To a file of the checkout."""


def write_study(arguments: Namespace) -> None:
    """Write Snakefile, configurations, profiles, environment and README into a new folder, and say
    what to type there.

    Raises:
        ConfigError: the folder has something in it.
        FileWriteError: it cannot be written.
    """
    folder = arguments.folder
    skeleton = resources.files("gpu_report.workflow") / "skeleton"
    with write_errors(folder), resources.as_file(skeleton) as written:
        folder.mkdir(parents=True, exist_ok=True)
        if {each.name for each in folder.iterdir()} - {".git"}:
            raise ConfigError(f"{folder} is not empty; name a new folder")
        for here, _, names in os.walk(written, followlinks=True):
            there = folder / Path(here).relative_to(written)
            there.mkdir(exist_ok=True)
            for name in names:
                text = Path(here, name).read_text("utf-8").replace("==VERSION", f"=={__version__}")
                (there / name).write_text(_LINK_OUT.sub(r"\1", text), "utf-8")
    say(f"wrote {folder}; run there: gpu-report plan, then snakemake --cores 4")
