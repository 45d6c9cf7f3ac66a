"""What a document elsewhere needs of a built report: which files, what stands in its README, and
its own main.tex.

report/ -> exported_files -> {"sections/device.tex": ..., "floats/tab/xeon-2c/device.tex": ...} ->
folder or archive
"""

import gzip
import io
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from gpu_report.errors import ReportError

PACKAGE: Final = "gpu_report"
SECTIONS: Final = "gpu_analysis_sections"
FORMATS: Final = ("pdf", "pgf")
_ALWAYS: Final = (
    f"{PACKAGE}.sty",
    f"{SECTIONS}.tex",
    "references.bib",
    "numbers.tex",
    "numbers.csv",
)
_REFERENCES: Final = f"build/{PACKAGE}.bbl"
_NAMES: Final = re.compile(r"\\gpurepsections(?:\[([^]]*)\])?\{([^}]*)\}")
_FLOAT: Final = re.compile(r"\\gpurepfloat\{([^}]*)\}")
_PICTURE: Final = re.compile(r"\\gpureppicture(?:\[.*?\])?\{([^}]*)\}")
_SEPARATOR: Final = "--"
"""Stands for the slash of a path where all files lie in one folder; gpu_report.sty says the
same.
"""


def exported_files(report: Path, *, figure_format: str) -> dict[str, bytes]:
    """Every file that the sections of a built report lead to, by its path inside the report's
    folder.

    `main.bbl` has the references as BibTeX set them, which arXiv does not run.

    Args:
        report: The folder of the report.
        figure_format: One of FORMATS; a figure in pgf brings the pictures that it is made of, and
            one that is too large for TeX to read as pgf, so that it was not drawn so, is taken as
            PDF.

    Raises:
        ReportError: the report was not built, or a file that it names is not there in that format.
    """
    if not (report / f"{PACKAGE}.pdf").exists() or not (report / f"{SECTIONS}.tex").exists():
        raise ReportError(
            f"there is no built report in {report} to export; make it with: make report"
        )
    found = dict.fromkeys(_ALWAYS)
    for path in _reached(report, figure_format):
        found[path] = None
    if figure_format == "pgf" and not any(path.endswith(".pgf") for path in found):
        raise ReportError(
            f"no figure in {report} is drawn as PGF; draw them with: snakemake --cores 4 "
            "figures_in_pgf"
        )
    return {
        **{path: _read(report, path) for path in sorted(found)},
        "main.bbl": _read(report, _REFERENCES),
    }


def _reached(report: Path, figure_format: str) -> Iterator[str]:
    names = _NAMES.search(_text(report, f"{SECTIONS}.tex"))
    if names is None:
        raise ReportError(
            f"{report / SECTIONS}.tex is of an older gpu-report; write it anew with: make report"
        )
    for name in re.findall(r"[^\s,%]+", ",".join(names.groups(""))):
        section = f"sections/{name}.tex"
        yield section
        text = _text(report, section)
        yield from _pictures(report, text, figure_format)
        for key in _FLOAT.findall(text):
            yield f"floats/{key}.tex"
            yield from _pictures(report, _text(report, f"floats/{key}.tex"), figure_format)


def _pictures(report: Path, text: str, figure_format: str) -> Iterator[str]:
    for name in _PICTURE.findall(text):
        in_pgf = figure_format == "pgf" and (report / f"figures/{name}.pgf").exists()
        yield f"figures/{name}.{'pgf' if in_pgf else 'pdf'}"
        if in_pgf:
            yield from (
                path.relative_to(report).as_posix()
                for path in sorted(report.glob(f"figures/{name}-img*.png"))
            )


def _text(report: Path, path: str) -> str:
    return _read(report, path).decode("utf-8")


def _read(report: Path, path: str) -> bytes:
    try:
        return (report / path).read_bytes()
    except FileNotFoundError as error:
        raise ReportError(
            f"the report names {path}, which is not in {report}; run: make report"
        ) from error
    except OSError as error:
        raise ReportError(
            f"cannot read {report / path}: {error.strerror}; allow reading it, then try again"
        ) from error


def as_folder(files: Mapping[str, bytes], *, name: str, figure_format: str) -> dict[str, bytes]:
    """The files with a README and a document of their own, for a folder called `name` inside a
    thesis.
    """
    return {
        **files,
        "README.md": _readme(name, figure_format).encode(),
        "main.tex": _main(_options(figure_format)).encode(),
    }


def as_flat_archive(files: Mapping[str, bytes], *, figure_format: str) -> bytes:
    """A .tar.gz with all files in one folder and a main.tex that pdflatex compiles; equal files
    give equal bytes.

    Raises:
        ReportError: two files would have the same name.
    """
    options = _options(figure_format, flat=True)
    flat = {"main.tex": b"\\pdfoutput=1 % arXiv takes pdflatex then\n" + _main(options).encode()}
    for path, content in files.items():
        name = path.replace("/", _SEPARATOR)
        if name in flat:
            raise ReportError(
                f"{path} would be called {name}, as another file is; rename one of them"
            )
        flat[name] = content
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, content in flat.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.mtime = len(content), 0o644, 0
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def lines_to_paste(name: str, *, figure_format: str) -> str:
    """The three lines that a document needs beside which the folder of this name lies."""
    return (
        f"\\usepackage{_options(figure_format)}{{{name}/{PACKAGE}}}  % in the preamble\n"
        f"\\input{{{name}/{SECTIONS}}}  % all sections; or one: {name}/sections/summary\n"
        f"\\gpurep{{study/variants}}  % any number of numbers.csv, by its key\n"
    )


def _options(figure_format: str, *, flat: bool = False) -> str:
    given = [*(["flat"] if flat else []), *(["figureformat=pgf"] if figure_format == "pgf" else [])]
    return f"[{','.join(given)}]" if given else ""


def _main(options: str) -> str:
    return rf"""\documentclass[a4paper,11pt]{{article}}
\usepackage[T1]{{fontenc}}
\usepackage{{lmodern}}
\usepackage{{siunitx}}
\usepackage[numbers]{{natbib}}
\usepackage{{hyperref}}
\usepackage{options}{{{PACKAGE}}}
\gpurepsetup{{citations}}
\begin{{document}}
\tableofcontents
\input{{{SECTIONS}}}
\bibliographystyle{{unsrtnat}}
\bibliography{{references}}
\end{{document}}
"""


def _readme(name: str, figure_format: str) -> str:
    return f"""# Sections of a gpu-report

Put this folder beside your document, under the name `{name}`, and paste into the document:

```latex
{lines_to_paste(name, figure_format=figure_format)}```

- A path is seen from the folder that LaTeX runs in. With another path or name, change the first two
  lines alone.
- `\\gpurepfloat{{tab/...}}` and `\\gpurepfloat{{fig/...}}` set one table or figure, named as
  the files in `floats`, in a frame of beamer and in a minipage too.
- Heading level, label prefix, sections, width and format of figures and the language of fixed words
  are options of the package: the head of `{PACKAGE}.sty` lists them.
- `\\gpurep` prints a number with the ends of its 95 % interval in parentheses. `\\gpurepvalue`,
  `\\gpureplow` and `\\gpurephigh` print a part.
- The option `citations` of the package cites methods and models; add `{name}/references` to your
  `\\bibliography` then.
- Load siunitx in your preamble if you want the numbers of tables aligned at their decimal mark.
- A second report in the same document has a prefix of its own:
  `\\gpurepsetup{{folder=other, prefix=other:}}`, then `\\input{{other/{SECTIONS}}}`.

`main.tex` is a document with nothing else in it: this folder can be uploaded to Overleaf as it is.
"""
