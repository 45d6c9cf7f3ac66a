"""What `gpu-report cite` prints for a machine, a bundle and a folder without either."""

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_report.bundles.packing import pack
from gpu_report.bundles.unpacking import unpack
from gpu_report.cli import main
from gpu_report.commands.results_folder import ResolvedStudy
from tests.factories import CONFIG, make_study
from tests.machine_results import write_results

H100, CPU = "h100-80gb-x1-xeon-16c", "xeon-2c"
SLUGS = [variant.slug for variant in make_study().variants[:2]]
REBUILD = "`snakemake --cores 4 report/gpu_report.pdf"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that measured nothing, and is where the commands run."""
    (tmp_path / "config").mkdir()
    shutil.copy(CONFIG, tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def measure(machine: str) -> Path:
    return write_results(Path("results/machines"), make_study(), machine=machine, variants=SLUGS)


def publish(machine: str) -> Path:
    """The machine's bundle, without what it was packed from."""
    bundle = Path(f"results/published/{machine}.tar.xz")
    pack(measure(machine), bundle, machine=machine, study="default", with_traces=False)
    shutil.rmtree(f"results/machines/{machine}")
    return bundle


def test_the_only_machine_that_measured_here_is_cited_with_the_command_that_rebuilds_its_report(
    capsys: pytest.CaptureFixture[str],
) -> None:
    publish(H100)
    measure(CPU)

    assert main(["cite"]) == 0

    software, measured, paragraph = capsys.readouterr().out.split("\n\n")
    assert software.startswith("@software{gpu-report,")
    assert measured.startswith(f"@misc{{gpu-report-{CPU},")
    assert f"On this machine, {REBUILD}` rebuilds" in paragraph
    assert "10 fresh processes" in paragraph
    assert "on disk" in paragraph


def test_the_command_that_rebuilds_a_report_keeps_its_time_budget(
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = measure(CPU)
    ResolvedStudy.of(CPU, replace(make_study(), minutes=2.5)).write(results / "tables")

    assert main(["cite"]) == 0
    assert f"{REBUILD} --config minutes=2.5`" in capsys.readouterr().out


@pytest.mark.parametrize("named", ["id", "path"])
def test_a_bundle_is_cited_by_its_checksum_and_rebuilt_from_the_published_ones(
    named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = publish(H100)

    assert main(["cite", {"id": H100, "path": str(bundle)}[named]]) == 0

    text = capsys.readouterr().out
    assert f"SHA-256 {hashlib.sha256(bundle.read_bytes()).hexdigest()}" in text
    assert f"{REBUILD} --config 'machines=[{H100}]'`" in text
    assert "as a bundle" in text
    assert text.endswith("It needs the configuration of the study default, config/study.yaml.\n")


def test_a_machine_whose_bundle_was_imported_and_removed_is_cited_without_a_checksum(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bundle = publish(H100)
    unpack(bundle, Path("results/imported"))
    bundle.unlink()

    assert main(["cite", H100]) == 0
    text = capsys.readouterr().out
    assert "SHA-256" not in text
    assert f"With the bundle in results/published, {REBUILD} --config" in text


def test_a_machine_is_cited_for_the_study_of_its_tables_whatever_was_asked_since(
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = measure(CPU)
    study = make_study().restricted_to(SLUGS[:1])
    ResolvedStudy.of(CPU, study).write(results / "tables")
    ResolvedStudy.of(CPU, replace(make_study(), name="other")).write(results)

    assert main(["cite"]) == 0
    assert "Measured: 1 configuration in 5" in capsys.readouterr().out


def test_a_bundle_has_the_study_of_the_tables_and_one_with_traces_all_that_was_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ResolvedStudy.of(CPU, make_study().restricted_to(SLUGS[:1])).write(measure(CPU) / "tables")

    assert main(["pack", "--machine", CPU]) == 0
    said = capsys.readouterr()
    assert main(["pack", "--machine", CPU, "--traces"]) == 0

    assert f"left out {SLUGS[1]}: not in the study" in said.err
    assert f"published/{CPU}.tar.xz: 1 records" in said.out
    assert f"with-traces-{CPU}.tar.xz: 2 records" in capsys.readouterr().out


def test_tables_of_another_study_are_not_packed_under_the_name_of_this_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = replace(make_study(), name="other")
    ResolvedStudy.of(CPU, other).write(measure(CPU) / "tables")

    assert main(["pack", "--machine", CPU]) == 2
    assert "belongs to the study 'other'" in capsys.readouterr().err
    assert not Path("results/published").exists()


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["cite", *arguments]) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert not captured.out
    return line


@pytest.mark.parametrize(
    ("arguments", "said"), [((), "name a bundle"), ((H100,), "gpu-report machines lists")]
)
def test_a_project_without_measurements_says_what_can_be_cited(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refusal(capsys, *arguments)


def test_without_a_choice_among_several_machines_one_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    measure(H100)
    measure(CPU)

    assert f"2 machines; name one of them, such as results/machines/{H100}" in refusal(capsys)


def test_a_bundle_of_another_study_asks_for_its_configuration(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bundle = publish(H100)
    ci = CONFIG.with_name("ci.yaml")

    assert "--configfile" in refusal(capsys, str(bundle), "--configfile", str(ci))


def test_a_machine_named_by_its_path_is_the_one_that_measured_here(
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = measure(CPU).resolve()

    assert main(["cite", str(folder)]) == 0
    assert "On this machine" in capsys.readouterr().out
