"""What bundles say: a machine's results out of one, and all that are published as one page.

bundle + study -> the commands that tabulate, in a temporary folder -> MachineResults, as the report
and the page get it -> a row for each model -> machines.html
"""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from gpu_report.bundles.shown_machines import BUNDLE_SUFFIX, PUBLISHED, study_of
from gpu_report.bundles.unpacking import unpack
from gpu_report.commands.document import results_of
from gpu_report.commands.results import derive_findings, tabulate_calibration, tabulate_study
from gpu_report.commands.results_folder import ResolvedStudy, ResultsFolder
from gpu_report.errors import BundleError
from gpu_report.glossary import Row
from gpu_report.page.machines import machine_rows, refused_row, render_machines
from gpu_report.page.shared import write_page
from gpu_report.printing.number_format import counted
from gpu_report.printing.terminal import say
from gpu_report.study.config import read_config
from gpu_report.study.study import PROTOCOL_VERSION, Prices
from gpu_report.tables.processes import protocol_version
from gpu_report.writing.machine import MachineResults


def read_bundle(bundle: Path | str, *, study: Path | str) -> MachineResults:
    """The results of a machine that `gpu-report pack` wrote, with its tables, figures and findings;
    leaves no files.

    Args:
        bundle: The file, for instance one of `results/published`.
        study: The study's YAML file, for instance `config/study.yaml`. What the bundle has no
            record of is left out.

    Raises:
        BundleError: the bundle cannot be trusted, or there is none.
        ConfigError: the study cannot be read.
    """
    with TemporaryDirectory() as folder:
        machine_folder, manifest, _ = unpack(Path(bundle), Path(folder))
        resolved = ResolvedStudy.of(manifest.machine, study_of(read_config(Path(study)), manifest))
        results = tabulate(machine_folder, resolved)
        machine = results_of(results)
        for name in machine.tables.by_name:
            getattr(machine.tables, name)  # read it while there is its file
        return replace(machine, folder=str(bundle), bundle=Path(bundle))


def tabulate(folder: Path, resolved: ResolvedStudy) -> ResultsFolder:
    """Write the study into the folder of a machine's results, then its tables and findings.

    Raises:
        RecordError: a configuration of the study has no record in the folder.
    """
    resolved.write(folder)
    results = ResultsFolder.of(folder / "study.json")
    arguments = Namespace(
        study=folder / "study.json",
        experiment="",
        calibration=results.calibration_file,
        tables=results.folder / "tables",
    )
    for write in (tabulate_calibration, tabulate_study, derive_findings):
        write(arguments)
    return results


def write_machines(arguments: Namespace) -> None:
    """Write the page of all published machines; a bundle that cannot be shown has a row that says
    why.

    Raises:
        BundleError: there is no bundle.
        ConfigError: the configuration of the prices, or the study of the bundles, cannot be read.
        FileWriteError: the file cannot be written, or something else is there.
    """
    prices = Prices(**read_config(arguments.configfile).get("prices", {}))
    rows: list[Row] = []
    for bundle in sorted(PUBLISHED.glob(f"*{BUNDLE_SUFFIX}")):
        try:
            rows += machine_rows(_known(bundle, arguments.configfile), prices)
        except BundleError as error:
            rows.append(refused_row(bundle, str(error)))
            say(f"not shown: {error}", to_stderr=True)
    if not rows:
        raise BundleError(f"{PUBLISHED} has no bundle; gpu-report pack writes one")
    write_page(arguments.html, render_machines(rows, prices))
    say(f"{arguments.html}: {counted(len(rows), 'row')}")


def _known(bundle: Path, configfile: Path) -> MachineResults:
    """The results in a bundle, of the study in this configuration, if this version knows
    the protocol that measured them.

    Raises:
        BundleError: it does not, or none of them is a training of the study that it can compare.
    """
    machine = read_bundle(bundle, study=configfile)
    newest = max(map(protocol_version, machine.records), default=0)
    if newest > PROTOCOL_VERSION:
        raise BundleError(
            f"{bundle}: it was measured by protocol version {newest}, and this gpu-report knows "
            f"versions up to {PROTOCOL_VERSION}; update gpu-report"
        )
    if not machine.chains:
        raise BundleError(f"{bundle}: it has no measured training of the study in {configfile}")
    return machine
