"""What the workflow's files promise about the package, checked against the package itself."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gpu_report.cli import COMMANDS, MEASURING_STAGES, STAGE
from gpu_report.tables import STUDY_TABLES
from gpu_report.writing.layout import report_layout

PROJECT = Path(__file__).parents[2]
PACKAGE = PROJECT / "src/gpu_report"
RULE_FILES = sorted((PACKAGE / "workflow").glob("*.smk"))
# They check and carry what passes through them; no table, figure or sentence depends on how.
CARRIERS = {"__init__.py", "errors.py"}

MEASURING = {
    "describe_machine",
    "measure_further",
    "measure_further_alone",
    "measure_sentinels",
    "measure_variant",
    "search_batch_size",
    "calibrate_machine",
    "write_image_files",
}
STARTS = {
    "import_bundle": ["bundles.unpacking"],
    "tabulate_trace": ["traces.tables"],
    "tabulate_study": ["tables"],
    "tabulate_calibration": ["tables"],
    "compare_machines": ["tables", "answers.machines"],
    "derive_findings": ["answers.questions"],
    "draw_figures": ["figures.registry"],
    "draw_comparison": ["figures.machines"],
    "draw_study": ["figures.networks"],
    "write_sections": ["writing.report", "figures.registry"],
    "compile_report": ["writing.latex"],
    "write_page": ["page.page", "figures.registry", "bundles.shown_machines"],
    "write_tensorboard_logs": ["commands.tensorboard_logs"],
}


def rules() -> dict[str, str]:
    text = "\n".join(path.read_text("utf-8") for path in [*RULE_FILES, PROJECT / "Snakefile"])
    parts = re.split(r"^(?:rule|use rule \w+ as) (\w+)(?: with)?:\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def file_of(module: str) -> Path | None:
    path = PACKAGE / Path(*module.split("."))
    candidates = [path.with_suffix(".py"), path / "__init__.py"]
    return next((candidate for candidate in candidates if candidate.exists()), None)


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and node.module.startswith("gpu_report")
        ):
            module = node.module.removeprefix("gpu_report").lstrip(".")
            yield from [module, *(f"{module}.{alias.name}".lstrip(".") for alias in node.names)]


def parts_used(modules: list[str]) -> set[str]:
    """The top-level modules and packages that these modules import, directly or through others."""
    seen: set[Path] = set()
    waiting = list(modules)
    while waiting:
        file = file_of(waiting.pop())
        if file and file not in seen:
            seen.add(file)
            waiting += imported(file)
    return {file.relative_to(PACKAGE).parts[0] for file in seen} - CARRIERS


@pytest.mark.parametrize("rule", STARTS)
def test_a_cheap_stage_names_every_part_of_the_package_it_imports(rule: str) -> None:
    common = (PACKAGE / "workflow/common.smk").read_text("utf-8")
    shared = re.search(r"^SHARED = (\[[^]]*\])$", common, re.MULTILINE)
    listed = re.search(r"sources\((.*?)\)", rules()[rule], re.DOTALL)
    assert shared is not None
    assert listed is not None
    named = {*ast.literal_eval(shared[1]), *ast.literal_eval(f"[{listed[1]}]")}

    assert {part.removesuffix(".py") for part in parts_used(STARTS[rule])} <= named


def test_every_stage_after_the_measuring_is_looked_at() -> None:
    assert {*STARTS} == {*rules()} - MEASURING - {"all", "transfer"} - {*rules_of_one_experiment()}


def rules_of_one_experiment() -> dict[str, str]:
    return {name: text for name, text in rules().items() if name.endswith("_alone")}


def test_a_stage_for_one_experiment_names_the_same_code_as_that_for_all() -> None:
    assert {name.removesuffix("_alone") for name in rules_of_one_experiment()} <= {
        *STARTS,
        *MEASURING,
    }
    for name, text in rules_of_one_experiment().items():
        assert set(re.findall(r"code=(.*),", text)) <= {
            f"rules.{name.removesuffix('_alone')}.params.code"
        }


def commands_of(rule_text: str) -> set[str]:
    return set(re.findall(r"\bgpu-report ((?:stage )?[a-z-]+)", rule_text.partition("shell:")[2]))


def test_the_rules_call_every_command_that_is_for_rules_alone() -> None:
    called = {command for text in rules().values() for command in commands_of(text)}
    by_others = {"stage measure-for-jobs"}

    grouped = {f"stage {name}" for name in COMMANDS[STAGE]}
    assert called == grouped - by_others | {*COMMANDS[MEASURING_STAGES], "unpack"}


def labels() -> set[str]:
    """Names of the labels that the templates and the text around them set for the whole study."""
    texts = [
        path.read_text("utf-8")
        for path in [*PACKAGE.glob("writing/**/*.j2"), *PACKAGE.glob("writing/*.py")]
    ]
    return {name for text in texts for name in re.findall(r"(?:tab|sec|fig):([a-z_]+)", text)}


def test_no_experiment_can_take_the_name_of_a_rule_table_section_or_label() -> None:
    names_of_experiments = {"batch_size"}  # named in the text as an example
    taken = {
        "gpu_report",
        *rules(),
        *(table.name for table in STUDY_TABLES),
        *report_layout([]).sections,
        *labels(),
    } - names_of_experiments

    schema = yaml.safe_load((PACKAGE / "study/study.schema.yaml").read_text("utf-8"))
    assert taken <= {*schema["properties"]["experiments"]["propertyNames"]["not"]["enum"]}


def test_measuring_rules_do_not_depend_on_code_so_that_an_edit_does_not_retrain() -> None:
    for rule in MEASURING:
        assert "sources(" not in rules()[rule]
