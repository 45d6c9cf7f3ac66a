"""What the published bundles, a synthetic study and recorded traces come to, as text: `make golden`
writes it into `tests/golden`, where its diff is the review of a change.

bundle or synthetic records -> tables, findings, numbers, figures and sections -> one text for each
trace -> its tables -> one text for each

Numbers of tables keep six digits, since the last ones depend on the processor. A table that would
take more than `MOST_BYTES` is a line in `digests.csv`.
"""

import csv
import hashlib
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import chdir
from io import StringIO
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from gpu_report.answers.finding import Finding
from gpu_report.bundles.shown_machines import study_of
from gpu_report.bundles.unpacking import read_manifest
from gpu_report.notebook import read_bundle
from gpu_report.study.config import read_config
from gpu_report.tables import STUDY_TABLES
from gpu_report.tables.bundle import rows_of
from gpu_report.tables.experiments import EXPERIMENT
from gpu_report.traces.reading import read_trace
from gpu_report.traces.tables import as_csv, tabulate_trace
from gpu_report.writing.machine import MachineResults
from tests.factories import make_study
from tests.report.synthetic import PROJECT, render_machines, results_on
from tests.unit.figures.drawn import texts_of as texts_in

FOLDER: Final = Path(__file__).parent
TRACES: Final = PROJECT / "tests" / "data" / "traces"
STUDY: Final = PROJECT / "config" / "study.yaml"
DEVICES: Final = ("cpu", "cuda", "cuda:1")
MOST_BYTES: Final = 40_000
ALWAYS_WHOLE: Final = ("findings.txt", "tables/variants.csv")
SHOWN_PARTS: Final = ("sections/", "floats/tab/", "headline.txt")
"""What a report has beside numbers and figures, and does not repeat their text."""
SOURCE_CODE: Final = "sections/implementation.tex"
_FLOAT: Final = re.compile(r"(?<![\w.-])-?\d+\.\d+(?:e[+-]?\d+)?(?![\w.])")

Texts = Mapping[str, str]


def synthetic() -> Texts:
    """The default study on a CPU and two GPUs, with the words of its figures."""
    machine = results_on(*DEVICES)
    texts = texts_of(machine, render_machines(make_study(devices=DEVICES), [machine]))
    drawn = {figure.name: words_in(figure.draw()) for figure in machine.figures}
    lines = (f"{name}: {' | '.join(words)}\n" for name, words in drawn.items())
    return {**texts, "figures_drawn.txt": "".join(lines)}


def published(bundle: Path) -> Texts:
    """The published study with what the bundle has of it."""
    study = study_of(read_config(STUDY), read_manifest(bundle))
    with chdir(PROJECT):  # so that sources are named as in any checkout
        machine = read_bundle(bundle.relative_to(PROJECT), study=STUDY)
        return texts_of(machine, render_machines(study, [machine]))


def traces() -> Texts:
    """Every table of the traces that were recorded on GPUs for the tests."""
    return {
        f"{path.name.partition('.')[0]}/{name}": rounded(text)
        for path in sorted(TRACES.glob("*.gz"))
        for name, text in as_csv(tabulate_trace(read_trace(path))).items()
    }


BUNDLES: Final = sorted((PROJECT / "results" / "published").glob("*.tar.xz"))
SOURCES: Final[Mapping[str, Callable[[], Texts]]] = {
    "synthetic": synthetic,
    "traces": traces,
    **{
        bundle.name.removesuffix(".tar.xz"): lambda bundle=bundle: published(bundle)  # type: ignore[misc]
        for bundle in BUNDLES
    },
}


def texts_of(machine: MachineResults, report: Texts) -> Texts:
    """Every artefact of a machine by the name of its file."""
    tables = {
        table.name: table.rows_to_csv(rows_of(getattr(machine.tables, table.name)))
        for table in STUDY_TABLES
    }
    tables |= {
        name: EXPERIMENT.rows_to_csv(rows_of(frame))
        for name, frame in machine.tables.experiments.items()
    }
    texts = {
        **{f"tables/{name}.csv": rounded(text) for name, text in tables.items()},
        "findings.txt": "\n".join(map(finding_text, machine.findings)),
        "numbers.csv": report["numbers.csv"],
        "numbers.txt": without_configurations(report["numbers.csv"]),
        "figures.txt": "\n".join(
            f"{figure.name}: {figure.title}\n  {figure.caption}\n  {figure.alt}\n"
            for figure in machine.figures
        ),
        **{
            name: text
            for name, text in report.items()
            if name.startswith(SHOWN_PARTS) and name != SOURCE_CODE
        },
    }
    large = {
        name: text
        for name, text in texts.items()
        if len(text.encode()) > MOST_BYTES and name not in ALWAYS_WHOLE
    }
    digests = [
        f"{name},{text.count(chr(10))},{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        for name, text in sorted(large.items())
    ]
    kept = {name: text for name, text in texts.items() if name not in large}
    return {**kept, "digests.csv": "\n".join(["file,lines,sha256", *digests, ""])}


def rounded(table: str) -> str:
    """The text of a CSV file with six digits of every number that has a fraction."""
    return _FLOAT.sub(lambda number: f"{float(number[0]):.6g}", table)


def without_configurations(numbers: str) -> str:
    """Key and text of the numbers that are of no one configuration: tables have the others."""
    rows = [
        (row["key"], row["text"]) for row in csv.DictReader(StringIO(numbers)) if not row["run"]
    ]
    return "\n".join(f"{key}: {text}" for key, text in rows) + "\n"


def words_in(figure: Figure) -> list[str]:
    """The texts of a figure but for bare numbers: Matplotlib chooses the ticks of an axis."""
    return sorted({text for text in texts_in(figure).splitlines() if re.search(r"[^\W\d]", text)})


def finding_text(finding: Finding) -> str:
    """A finding with the evidence for it, in lines."""
    evidence = [f"{each.label} {each.value} ({each.table})" for each in finding.evidence]
    lines = [
        f"{finding.id}: {finding.verdict}",
        finding.statement,
        *([finding.recommendation] if finding.recommendation else []),
        "; ".join(evidence),
    ]
    return "\n  ".join(lines) + "\n"


def write(folder: Path, texts: Texts) -> None:
    """Write the texts into the folder, and nothing else that was in it."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def main() -> None:
    for name, make in SOURCES.items():
        write(FOLDER / name, make())


if __name__ == "__main__":
    main()
