"""The command that writes the files of a study, so that it needs no checkout."""

import shutil
import stat
from argparse import Namespace
from importlib import resources

from gpu_report import __version__
from gpu_report.errors import ConfigError
from gpu_report.printing.terminal import say
from gpu_report.storage.files import write_errors


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
        if any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty; name a new folder")
        shutil.copytree(written, folder, copy_function=shutil.copyfile, dirs_exist_ok=True)
        for path in (folder, *folder.rglob("*")):  # an installed package may be read-only
            path.chmod(path.stat().st_mode | stat.S_IWUSR)
        environment = folder / "environment.yml"
        pinned = environment.read_text("utf-8").replace("VERSION", __version__)
        environment.write_text(pinned, "utf-8")
    say(f"wrote {folder}; run there: gpu-report plan, then snakemake --cores 4")
