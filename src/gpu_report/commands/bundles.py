"""Commands that pack one machine's results into a bundle, unpack one, say how to cite it, and list
the machines that a report can show and the numbers that a document can quote from it.
"""

import shlex
from argparse import Namespace
from pathlib import Path

from gpu_report.bundles import unpacking
from gpu_report.bundles.shown_machines import (
    BUNDLE_SUFFIX,
    IMPORTED,
    MACHINES,
    find_bundles,
    published_for,
)
from gpu_report.commands.results_folder import ResultsFolder, study_of_tables
from gpu_report.errors import ConfigError, ReportError
from gpu_report.printing.number_format import size
from gpu_report.printing.terminal import print_table, say
from gpu_report.records.batch_sizes import SEARCHES_FOLDER
from gpu_report.records.record import SENTINELS_FOLDER
from gpu_report.storage.files import list_content
from gpu_report.study.config import DEFAULT_CONFIGFILE, read_config
from gpu_report.study.machine import find_machine, hardware_words
from gpu_report.study.study import Study


def pack(arguments: Namespace) -> None:
    """Write the bundle of one machine and say what is in it."""
    from gpu_report.bundles.packing import pack as pack_results

    machine = arguments.machine or find_machine().id
    folder, name = MACHINES / machine, f"{machine}{BUNDLE_SUFFIX}"
    study = str(read_config(arguments.configfile).get("name", ""))
    of = None if arguments.traces else _tabulated(folder, folder, study, arguments.configfile)
    target = arguments.out or (
        Path("results") / f"with-traces-{name}" if arguments.traces else published_for(study) / name
    )
    manifest, left_out = pack_results(
        folder,
        target,
        machine=machine,
        study=study,
        with_traces=arguments.traces,
        asked={*(each.slug for each in of.variants), *(each.slug for each in of.searches)}
        if of
        else None,
        allow_dirty=arguments.allow_dirty,
    )
    for reason in dict.fromkeys(left_out.values()):
        slugs = [slug for slug, why in left_out.items() if why == reason]
        say(f"left out {', '.join(slugs)}: {reason}", to_stderr=True)
    megabytes = target.stat().st_size / 1e6
    say(f"{target}: {manifest.records} records of {machine}, {megabytes:.2f} MB")


def unpack(arguments: Namespace) -> None:
    """Put a bundle's results into the folder of its machine, beside what is measured there
    already.
    """
    folder, manifest, kept = unpacking.unpack(arguments.bundle, arguments.machine_folder)
    for name in ("runs", SEARCHES_FOLDER, SENTINELS_FOLDER):
        list_content(folder / name)
    say(f"{folder}: {manifest.records - len(kept)} records of {manifest.hardware}")
    if kept:
        say(
            f"left as they were, being measured there already: {', '.join(kept)}",
            to_stderr=True,
        )


def cite(arguments: Namespace) -> None:
    """Print BibTeX for gpu-report and for what one machine measured, and the paragraph that an
    artifact evaluation asks for.
    """
    from gpu_report.writing.citation import artifact_paragraph, measurements_entry, software_entry

    configfile = arguments.configfile
    config = read_config(configfile)
    name = str(config.get("name", ""))
    published = published_for(name)
    source = _results_to_cite(arguments.results, published)
    bundle = source if source.is_file() else None
    with unpacking.results_at(source) as folder:
        is_here = folder.resolve().parent == MACHINES.resolve()
        study = _tabulated(folder, source, name, configfile)
        asked = {variant.slug for variant in study.variants} if study else None
        records = [
            record
            for slug, record in unpacking.records_in(folder).items()
            if asked is None or slug in asked
        ]
        taken = size(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()))
    options = [
        *([f"--configfile {shlex.quote(str(configfile))}"] * (configfile != DEFAULT_CONFIGFILE)),
        *([f"--config 'machines=[{records[0].machine}]'"] * (not is_here)),
        *([f"--config minutes={study.minutes:g}"] if is_here and study and study.minutes else []),
    ]
    command = f"`{' '.join(['snakemake --cores 4 report/gpu_report.pdf', *options])}`"
    texts = [
        software_entry(),
        measurements_entry(records, title=str(config.get("title", "")), bundle=bundle),
        artifact_paragraph(
            records,
            disk=f"{size(bundle.stat().st_size).plain()} as a bundle and {taken.plain()} unpacked"
            if bundle
            else f"{taken.plain()} on disk",
            rebuilt=f"On this machine, {command} rebuilds the report from the records."
            if is_here
            else f"With the bundle in {published}, {command} rebuilds the report without a GPU. It "
            f"needs the configuration of the study {name}, {configfile}.",
        ),
    ]
    say("\n\n".join(texts))


def _tabulated(folder: Path, source: Path, name: str, configfile: Path) -> Study | None:
    """The study that the tables in a machine's folder are of, which is out of the source; None
    where no file says which.

    Raises:
        ConfigError: the tables, or the bundle that is the source, are of no study of this name.
    """
    has_study = study_of_tables(folder).exists()
    study = ResultsFolder.tabulated(folder).study if has_study else None
    found = (
        unpacking.read_manifest(source).study if source.is_file() else study.name if study else name
    )
    if found != name:
        raise ConfigError(
            f"{source} belongs to the study {found!r}, but {configfile} configures another; pass "
            "the configuration of that study with --configfile, or make the report of this one "
            "again"
        )
    return study


def _results_to_cite(name: str, published: Path) -> Path:
    """The folder or published bundle of the machine with this id, or what is at this path; without
    a name the folder of all that were measured here, which must be one.
    """
    if not name:
        return MACHINES if MACHINES.exists() else Path()
    bundle = published / f"{name}{BUNDLE_SUFFIX}"
    folders = [
        each for each in (MACHINES / name, IMPORTED / name) if any(each.glob("runs/*/*.json"))
    ]
    return next((place for place in (*folders[:1], bundle) if place.exists()), Path(name))


def list_machines(arguments: Namespace) -> None:
    """Print this machine and every published one: records and the hardware, and of a published one
    the records of no clean commit and the newest; or write the page of the published ones.
    """
    if arguments.html:
        from gpu_report.commands.published import write_machines

        write_machines(arguments)
        return
    here = find_machine()
    measured = [*(MACHINES / here.id / "runs").glob("*/record.json")]
    accelerators = [each.name for each in here.accelerators]
    hardware = hardware_words(
        [
            {
                "accelerator": ", ".join(dict.fromkeys(accelerators)),
                "cpu_model": here.cpu_model,
                "cpu_cores": here.cores,
            }
        ],
        gpus=len(accelerators),
    )
    rows = [(here.id, "here", str(len(measured)), "", "", hardware)]
    for bundle, manifest in find_bundles().values():
        counts = (str(manifest.records), str(manifest.dirty_records))
        rows.append(
            (manifest.machine, str(bundle), *counts, manifest.measured_at, manifest.hardware)
        )
    print_table("machine", "from", "records", "dirty", "newest", "hardware", rows=rows)


def list_numbers(arguments: Namespace) -> None:
    """Print each number whose key has all the words in it: key, number, its file and the variant
    measured.
    """
    from gpu_report.writing.layout import NUMBERS_CSV
    from gpu_report.writing.numbers import NUMBERS

    file, words = arguments.folder / NUMBERS_CSV, arguments.words
    if not file.exists():
        raise ReportError(f"there is no {file}; make the report with: snakemake --cores 4")
    numbers = NUMBERS.read_rows(file)
    found = [number for number in numbers if all(word in number["key"] for word in words)]
    if not found:
        raise ReportError(
            f"no key of the {len(numbers)} numbers in {file} has {' and '.join(words)} in it"
        )
    rows = [[number[column] for column in ("key", "text", "table", "run")] for number in found]
    print_table("key", "number", "table", "run", rows=rows)
