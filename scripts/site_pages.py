"""The pages of the documentation site that are made while mkdocs builds it: what the code declares,
and documents that are outside of docs/.

code, schema and documents -> Markdown -> pages beside those of docs/
"""

import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any, Final

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from gpu_report import _MODULES, cli
from gpu_report.commands.traces import every_table
from gpu_report.tables.marks import MEANINGS

Schema = Mapping[str, Any]

PROJECT: Final = Path(__file__).parents[1]
DOCUMENTS: Final = {
    "benchmarks/README.md": "benchmarks.md",
    "CHANGELOG.md": "changelog.md",
    "config/README.md": "configuration.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""What the site has besides docs/, by its path in the repository."""
DOWNLOADS: Final = (
    "notebooks/*.ipynb",
    "results/published/**/*.tar.xz",
    "src/gpu_report/writing/templates/sections/batch_size.tex.j2",
)
FOUND_LAST: Final = ("benchmarks.md", "changelog.md", "contributing.md", "evidence.md")
"""Long pages about the project itself, which a search lists after those for its users."""
ALSO_CALLED: Final = (
    "gpu_report.callbacks.lightning_callback",
    "gpu_report.callbacks.hugging_face_callback",
    "gpu_report.notebook.read_bundle",
    "gpu_report.notebook.readable",
)
"""What a person calls besides what `import gpu_report` offers."""
FROM_README: Final = re.compile(r"<!-- README: (.+) -->")
MANY: Final = 5
"""From this number of names on, a heading has only the last, which is that of any other name."""
LINK: Final = re.compile(r"(?<=\]\()[^)\s:#]+")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents, downloads and reference pages to those of docs/."""
    for name, page in DOCUMENTS.items():
        files.append(File.generated(config, page, abs_src_path=str(PROJECT / name)))
    for pattern in DOWNLOADS:
        for path in sorted(PROJECT.glob(pattern)):
            name = path.relative_to(PROJECT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    for name, text in {
        "python": python_page(),
        "commands": commands_page(),
        "tables": tables_page(),
        "keys": keys_page(),
        "flags": flags_page(),
    }.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put in the sections of the README, and let links lead to pages of the site."""
    uri = page.file.src_uri
    if uri in FOUND_LAST:
        page.meta["search"] = {"boost": 0.01}
    source = next((name for name, made in DOCUMENTS.items() if made == uri), f"docs/{uri}")
    moved = with_links(markdown, source=source, page=uri)
    return FROM_README.sub(
        lambda found: with_links(readme_section(found[1]), source="README.md", page=uri), moved
    )


def with_links(markdown: str, *, source: str, page: str) -> str:
    """The text with this document's links in the repository as that page's links in the site."""

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[0]))
        uri = DOCUMENTS.get(target, target.removeprefix("docs/"))
        return posixpath.relpath(uri, posixpath.dirname(page) or ".")

    return LINK.sub(moved, markdown)


def readme_section(title: str) -> str:
    """A section of the README with its heading."""
    text = (PROJECT / "README.md").read_text("utf-8")
    begin = text.index(f"\n## {title}\n") + 1
    return text[begin : text.find("\n## ", begin)]


def python_page() -> str:
    """What `import gpu_report` offers, from the docstrings."""
    functions_first = sorted(_MODULES, key=lambda name: name[0].isupper())
    names = [*(f"gpu_report.{name}" for name in functions_first), *ALSO_CALLED]
    return "\n\n".join(
        [
            "# Python",
            "[Your own model](../your_model.md) and [Any trace](../traces.md) have examples.",
            *(f"::: {name}" for name in names),
        ]
    )


def commands_page() -> str:
    """The help of every command that a person types."""
    lines = ["# Commands", block(help_of())]
    for job, commands in cli.COMMANDS.items():
        if job not in (cli.STAGE, cli.MEASURING_STAGES):
            for name in commands:
                lines += [f"## gpu-report {name}", block(help_of(name))]
    return "\n\n".join(lines)


def help_of(*command: str) -> str:
    """What `--help` prints in a terminal of 80 columns."""
    printed = StringIO()
    os.environ["COLUMNS"] = "80"
    with redirect_stdout(printed), suppress(SystemExit):
        cli.main([*command, "--help"])
    return printed.getvalue()


def block(text: str) -> str:
    """Text as it is."""
    return f"```text\n{text.rstrip()}\n```"


def tables_page() -> str:
    """Every table with its columns, as `gpu-report columns` prints them."""
    lines = [
        "# Tables and columns",
        "`gpu-report columns TABLE` prints the same. The unit 1 is that of shares, counts and "
        "ratios. Only a float64 may be missing.",
    ]
    for name, table in every_table().items():
        rows = [
            (f"`{column.name}`", column.dtype, column.unit, cell(column.meaning))
            for column in table.columns
        ]
        lines += [
            f"## {name}",
            cell(table.meaning),
            grid(("column", "type", "unit", "meaning"), rows),
        ]
    return "\n\n".join(lines)


def flags_page() -> str:
    """What each quality flag says of a configuration."""
    rows = [(flag, cell(meaning)) for flag, meaning in MEANINGS.items()]
    return "\n\n".join(
        [
            "# Quality flags",
            "[The report](../report.md#how-to-read-it) says what they change.",
            grid(("flag", "meaning"), rows),
        ]
    )


def grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(text: str) -> str:
    """Plain text without what a table in Markdown or HTML would read in it."""
    return text.replace("<", "&lt;").replace("|", "&#124;")


def keys_page() -> str:
    """Every key of a study's YAML file, from the schema that checks it."""
    schema = yaml.safe_load((PROJECT / "src/gpu_report/study/study.schema.yaml").read_text("utf-8"))
    tables: dict[str, list[str]] = {}
    definitions = schema["$defs"]
    for path, properties, required in sections(schema, "", definitions):
        rows = [
            (
                f"`{key}`" + (" (required)" if key in required else ""),
                allowed(value, definitions),
                cell(resolved(value, definitions).get("description", "")),
            )
            for key, value in properties.items()
        ]
        tables.setdefault(grid(("key", "allowed", "meaning"), rows), []).append(path)
    lines = [
        "# Every key of a study",
        "From the schema that checks the file. [The configuration](../configuration.md) explains "
        "the keys, the options and how to add an experiment.",
    ]
    for table, paths in tables.items():
        shown = [f"`{path}`" for path in (paths if len(paths) < MANY else paths[-1:])]
        lines += [f"## {', '.join(shown) if paths[0] else 'The file'}", table]
    return "\n\n".join(lines)


def resolved(value: Schema, definitions: Schema) -> Schema:
    """The schema that a reference names; a description beside the reference replaces its own."""
    if "$ref" not in value:
        return value
    target: Schema = {"$defs": definitions}
    for part in value["$ref"].removeprefix("#/").split("/"):
        target = target[part]
    return resolved({**target, **{key: value[key] for key in value if key != "$ref"}}, definitions)


def sections(
    value: Schema, path: str, definitions: Schema
) -> Iterator[tuple[str, Schema, list[str]]]:
    """Each mapping of the file: its path, its keys and those of them that are required."""
    value = resolved(value, definitions)
    if "if" in value:
        case = value["if"]["required"][0]
        yield from sections(value["then"], f"{path} with {case}", definitions)
        yield from sections(value["else"], path, definitions)
    properties = value.get("properties", {})
    if properties and "propertyNames" not in value:
        yield path, properties, value.get("required", [])
    for key, inner in properties.items():
        yield from sections(inner, f"{path}.{key}".lstrip("."), definitions)
    if value.get("additionalProperties"):
        yield from sections(value["additionalProperties"], f"{path}.<name>", definitions)
    if "items" in value:
        yield from sections(value["items"], f"{path}[]", definitions)


def allowed(value: Schema, definitions: Schema) -> str:
    """The values that a key takes, in words."""
    value = resolved(value, definitions)
    if "oneOf" in value:
        return " or ".join(allowed(each, definitions) for each in value["oneOf"])
    if "enum" in value:
        return ", ".join(f"`{each}`" for each in value["enum"])
    if "const" in value:
        return f"`{value['const']}`"
    kinds = value.get("type", "object")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return " or ".join(kind_in_words(kind, value, definitions) for kind in kinds)


def kind_in_words(kind: str, value: Schema, definitions: Schema) -> str:
    """A type with its bounds."""
    if kind == "array":
        return f"a list of {allowed(value['items'], definitions)}"
    if kind in ("integer", "number"):
        bounds = [
            f"{words} {value[key]:,}"
            for key, words in {
                "exclusiveMinimum": "above",
                "minimum": "at least",
                "maximum": "at most",
                "exclusiveMaximum": "below",
            }.items()
            if key in value
        ]
        return ", ".join(["a whole number" if kind == "integer" else "a number", *bounds])
    if kind == "string":
        return f"text that matches `{value['pattern']}`" if "pattern" in value else "text"
    return {"boolean": "`true`, `false`", "null": "`null`", "object": "keys, below"}[kind]
