import re
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import pytest
import yaml

from gpu_report.answers.finding import Verdict
from gpu_report.answers.summary import answer_word
from gpu_report.errors import ReportError
from gpu_report.workloads.transformer import TransformerClassification
from gpu_report.writing.environment import TEMPLATES
from gpu_report.writing.layout import FLOATS_FOLDER, experiment_layout, report_layout
from tests.factories import CONFIG, make_record, make_records, make_study
from tests.report.synthetic import (
    render_devices,
    render_machines,
    render_study,
    render_two_machines,
    results_on,
    section_with_floats,
    tables_of,
)

SCHEMA = Path(__file__).parents[3] / "src/gpu_report/study/study.schema.yaml"
EXPERIMENTS = [experiment.name for experiment in make_study().experiments]


def whole(files: dict[str, str]) -> str:
    text = "\n".join(
        text for name, text in files.items() if name.startswith(("sections/", "floats/"))
    )
    return re.sub(r"\s+", " ", text)


def copied_templates(folder: Path) -> Path:
    for template in TEMPLATES.rglob("*.j2"):
        path = folder / template.relative_to(TEMPLATES)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(template.read_text("utf-8"), encoding="utf-8")
    return folder


def rendered(*shown: str) -> dict[str, str]:
    """The report on one machine with these devices, or on two machines."""
    return render_two_machines() if shown == ("two machines",) else render_devices(*shown)


@pytest.mark.parametrize("shown", [("cpu",), ("cpu", "cuda"), ("two machines",)])
def test_every_reference_has_a_label_and_no_label_stands_twice(shown: tuple[str, ...]) -> None:
    text = whole(rendered(*shown))

    labels = re.findall(r"\\gpureplabel\{([^}]+)\}", text) + re.findall(
        r"section(?:\[[^]]*\])?\{[^}]*\}\{(sec:[^}]+)\}", text
    )
    assert len(labels) == len(set(labels))
    assert set(re.findall(r"\\gpurepref\{([^}]+)\}", text)) <= set(labels)


@pytest.mark.parametrize("shown", [("cpu",), ("cpu", "cuda"), ("two machines",)])
def test_what_is_referred_to_has_a_title_for_a_document_without_it(shown: tuple[str, ...]) -> None:
    files = rendered(*shown)
    titles = dict(re.findall(r"\\gpureptitle\{(.+?)\}\{(.+)\}", files["numbers.tex"]))

    referred = set(re.findall(r"\\gpurepref\{([^}]+)\}", whole(files)))

    assert referred <= titles.keys()
    assert titles["sec:recommendations"] == "What to do"
    assert titles["sec:reliability"] == "Threats to validity"
    assert "sec:device" not in titles or titles["sec:device"].startswith(("How", "Training"))
    caption = re.search(r"caption\[(.+?)\]", files["floats/tab/workloads.tex"])
    assert caption is not None
    assert titles["tab:workloads"] == caption[1]


@pytest.mark.parametrize("shown", [("cpu",), ("cpu", "cuda")])
def test_the_number_that_the_package_shows_as_an_example_is_in_every_report(
    shown: tuple[str, ...],
) -> None:
    files = rendered(*shown)
    usage = (TEMPLATES / "gpu_report.sty").read_text("utf-8").partition("% Switches")[0]

    (example,) = re.findall(r"\\gpurep\{(.+?)\}", usage)

    machine = re.findall(r"\\gpurepmachine\{(.+?)\}", files["numbers.tex"])[0]
    assert f"\\gpurepnumber{{{machine}/{example}}}" in files["numbers.tex"]


def test_every_fixed_word_has_its_german_and_no_other_word_has_one() -> None:
    package = (TEMPLATES / "gpu_report.sty").read_text("utf-8")
    printed = {
        word
        for files in (rendered("cpu"), rendered("cpu", "cuda"), rendered("two machines"))
        for word in re.findall(r"\\gpurepword\{([^}]+)\}", whole(files) + package)
    }
    counted = {f"{word}s" for word in ("Table", "Figure", "Section")}
    finding = results_on("cpu", "cuda").findings[0]
    answers = {
        answer_word(finding.model_copy(update={"question": "Is it?", "verdict": verdict}))
        for verdict in get_args(Verdict)
    }

    german = set(re.findall(r"\\gpurep@german\{([^}]+)\}", package))

    assert len(answers) == len({"yes", "no", "too close to call", "nothing where not measured"})
    assert german == (printed | counted | answers) - {""}


def test_what_a_study_leaves_out_is_neither_written_nor_referred_to() -> None:
    schema = yaml.safe_load(SCHEMA.read_text("utf-8"))
    names = schema["properties"]["leave_out"]["items"]["enum"]
    config = {**yaml.safe_load(CONFIG.read_text("utf-8")), "leave_out": names}

    files = render_study(make_study(config=config, devices=("cpu", "cuda")))

    text = whole(files)
    assert not {f"sections/{name}.tex" for name in names} & files.keys()
    assert not {f"sec:{name}" for name in names} & {*re.findall(r"\\gpurepref\{([^}]+)\}", text)}
    listed = files["gpu_report.tex"] + files["gpu_analysis_sections.tex"]
    assert not re.findall(rf"\b(?:{'|'.join(names)})\b", "".join(re.findall(r"\{[^}]*\}", listed)))


@pytest.mark.parametrize("devices", [("cpu",), ("cpu", "cuda")])
@pytest.mark.parametrize("leave_out", [[], ["limit_cards"]])
def test_the_contents_are_listed_once(devices: tuple[str, ...], leave_out: list[str]) -> None:
    config = {**yaml.safe_load(CONFIG.read_text("utf-8")), "leave_out": leave_out}

    files = render_study(make_study(config=config, devices=devices))

    body = files["gpu_report.tex"].partition(r"\begin{document}")[2]
    assert body.count(r"\gpurepcontents") == 1


def test_sections_with_nothing_to_show_are_left_out_and_their_questions_listed_once() -> None:
    files = render_devices("cpu")
    taken = ",".join(re.findall(r"\\gpurepsections\{([^}]*)\}", files["gpu_report.tex"])).split(",")
    brackets, asked = re.findall(
        r"\\gpurepsections\[([^]]*)\]\{([^}]*)\}", files["gpu_analysis_sections.tex"]
    )[0]

    for name in ("crossover", "frontier", "models", "precision", "memory", "transfer", "energy"):
        assert name not in taken
        assert name in brackets.split(",")
        assert name not in re.findall(r"\w+", asked)
    assert "need a GPU" in files["sections/workloads.tex"]


@pytest.mark.parametrize(("common", "is_table"), [(6, True), (30, False)])
def test_machines_side_by_side_have_a_table_or_where_it_would_be_long_a_figure(
    *, common: int, is_table: bool
) -> None:
    machine = results_on("cpu", "cuda")
    measured = [record for record in machine.records if record.status == "ok"]
    other = replace(machine, id="abacus-8c", records=measured[:common])

    section = section_with_floats(
        render_machines(make_study(devices=("cpu", "cuda")), [machine, other]), "machines"
    )

    assert len(measured) >= common
    assert ("tab:comparison" in section, "fig:machines/" in section) == (is_table, not is_table)


def test_no_table_is_empty_and_nothing_is_called_nan() -> None:
    for shown in (("cpu",), ("cpu", "cuda"), ("two machines",)):
        text = whole(rendered(*shown))

        assert not re.search(r"\\midrule\s*\\bottomrule", text)
        assert not re.search(r"\bnan\b", text, re.IGNORECASE)


def test_a_study_of_which_nothing_was_measured_still_has_every_section() -> None:
    study = make_study(devices=("cpu",))
    records = [
        make_record(variant.slug, status="failed", reason="it broke") for variant in study.variants
    ]

    files = render_study(study, records=records)

    assert set(files) >= set(report_layout(EXPERIMENTS, study.leave_out).files)
    assert "it broke" in files["sections/machine.tex"].replace(r"\gpurepbreak{}", "")
    section = files["sections/batch_size.tex"].replace(r"\gpurepbreak{}", "")
    assert "it broke" in section
    assert r"logs/measure\_variant/" in section


def test_an_experiment_alone_has_the_machine_what_it_trains_and_its_own_section() -> None:
    study = make_study(devices=("cpu",))
    alone = study.alone("batch_size")

    files, report = render_study(alone, alone=True), render_devices("cpu")

    assert sorted(name for name in files if not name.startswith(FLOATS_FOLDER)) == sorted(
        experiment_layout("batch_size").files
    )
    assert {name for name in files if name.startswith("sections/")} == {
        "sections/machine.tex",
        "sections/workloads.tex",
        "sections/batch_size.tex",
        "sections/networks.tex",
    }
    assert files["sections/batch_size.tex"] == report["sections/batch_size.tex"]
    assert preamble(files["gpu_report.tex"]) == preamble(report["gpu_report.tex"])
    assert "summary" not in files["gpu_report.tex"]


@pytest.mark.parametrize(
    ("data", "embedded"), [("cifar10", "each patch"), ("synthetic", "Each character")]
)
def test_the_transformer_embeds_what_its_samples_are_made_of(
    data: Literal["cifar10", "synthetic"], embedded: str
) -> None:
    workload = TransformerClassification(size="default", seed=0, data=data)
    study = make_study(devices=("cpu", "cuda")).alone("models")
    records = make_records(study, facts={"sample_description": workload.sample_description})

    networks = render_study(study, records=records)["sections/networks.tex"]

    assert [text for text in ("each patch", "Each character") if text in networks] == [embedded]


def preamble(document: str) -> str:
    return document.partition(r"\begin{document}")[0]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [(r"\VAR{experiment.nothing}", "no attribute 'nothing'"), (r"\BLOCK{fi}", "unknown tag 'fi'")],
)
def test_a_broken_section_is_an_error_with_file_and_line(
    tmp_path: Path, broken: str, reason: str
) -> None:
    templates = copied_templates(tmp_path)
    section = templates / "sections" / "workers.tex.j2"
    lines = section.read_text("utf-8").splitlines()
    section.write_text("\n".join([*lines[:2], broken, *lines[2:]]), encoding="utf-8")

    with pytest.raises(ReportError, match=rf"sections/workers\.tex\.j2:3: .*{reason}"):
        render_study(make_study(devices=("cpu",)), tables=tables_of("cpu"), templates=[templates])


def test_a_metric_that_does_not_exist_is_an_error_that_names_those_that_do(tmp_path: Path) -> None:
    templates = copied_templates(tmp_path)
    section = templates / "sections" / "workers.tex.j2"
    section.write_text(
        section.read_text("utf-8").replace('"data_wait"', '"data_weight"'), encoding="utf-8"
    )

    with pytest.raises(
        ReportError,
        match=r"workers\.tex\.j2:\d+: there is no metric 'data_weight'; use one of .*data_wait",
    ):
        render_study(make_study(devices=("cpu",)), tables=tables_of("cpu"), templates=[templates])
