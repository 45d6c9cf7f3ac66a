r"""The template environment: TeX-safe delimiters, escaping that nobody has to remember, errors that
name file and line.

`\VAR{value}` prints, `\BLOCK{if ...}` decides, `\#{...}` is a comment; a line that begins with `%%`
is one as well.
"""

import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from markupsafe import Markup

from gpu_report.errors import GpuReportError, ReportError
from gpu_report.words import listed
from gpu_report.writing.tex import Tex, breakable, escape, pdf_string, xml_text

TEMPLATE_SUFFIX: Final = ".tex.j2"
TEMPLATES: Final = Path(__file__).with_name("templates")
"""Those of the package, with the files that stand beside what they give."""


class _TexCodeGenerator(CodeGenerator):
    """Keeps Jinja2 from escaping for HTML where `finalize` comes too late: in `~`."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        self.fail("'~' is not for TeX; print the two values one after the other", node.lineno)


class Templates:
    r"""The templates in a study's own folders, and those of the package that they have none
    for. `floats` collects the text of each table and figure that a template sets apart.

    A template sets one apart with `\BLOCK{call apart("tab", name)}...\BLOCK{endcall}`, which leaves
    the command that takes it in. A third argument is what it shows, which `subjects` keeps.
    """

    def __init__(self, own: Sequence[Path]) -> None:
        self.floats: dict[str, str] = {}
        self.subjects: list[object] = []
        self.environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader([*own, TEMPLATES]),
            undefined=jinja2.StrictUndefined,
            block_start_string=r"\BLOCK{",
            block_end_string="}",
            variable_start_string=r"\VAR{",
            variable_end_string="}",
            comment_start_string=r"\#{",
            comment_end_string="}",
            line_comment_prefix="%%",
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            # Jinja2 then marks what macros, calls and block assignments give as finished, so that
            # it is not escaped twice; the escaping itself is done by `finalize`, before the one
            # that Jinja2 has for HTML, which leaves Tex alone. It takes the context, so that
            # Jinja2 does not escape constants itself when it reads a template.
            autoescape=True,
            finalize=jinja2.pass_context(lambda _, value: _printable(value)),
            auto_reload=False,
        )
        self.environment.code_generator_class = _TexCodeGenerator
        self.environment.filters = dict(_FILTERS)
        self.environment.globals["apart"] = self._apart

    def _apart(
        self, kind: str, name: str, subject: object = None, *, caller: Callable[[], str]
    ) -> Tex:
        key = f"{kind}/{_key(name)}"
        self.subjects.append(subject)
        self.floats[key] = str(caller())
        return Tex(rf"\gpurepfloat{{{key}}}") + Tex("\n")


def written_by_hand(name: str, own: Sequence[Path]) -> str:
    """The text of a file that stands beside what templates give, from the same folders."""
    found = (folder / name for folder in (*own, TEMPLATES))
    return next(filter(Path.exists, found)).read_text("utf-8")


def render(templates: Templates, name: str, values: Mapping[str, Any], *, default: str = "") -> str:
    """Fill in one template; every value printed is escaped unless it is Tex.

    Args:
        templates: Those that there are.
        name: For instance `sections/device.tex.j2`.
        values: What the template may use.
        default: The template that takes its place if there is none of that name.

    Raises:
        ReportError: the template is missing, cannot be read as a template, uses a name that is not
            there, or prints something other than text and whole numbers.
    """
    try:
        return templates.environment.select_template([name, default] if default else [name]).render(
            values
        )
    except jinja2.TemplateSyntaxError as error:
        place = f"{error.filename or error.name}:{error.lineno}"
        raise ReportError(f"{place}: {_one_line(error)}; fix the template") from error
    except jinja2.TemplateNotFound as error:
        raise ReportError(f"{error.name}: there is no such template; put it back") from error
    except GpuReportError as error:
        raise ReportError(f"{_template_frames(error)[0]}: {error}") from error
    except (
        jinja2.TemplateRuntimeError,
        TypeError,
        ValueError,
        ArithmeticError,
        LookupError,
    ) as error:
        # `file:line` of the template the error came from, as Jinja2 wrote it into the traceback;
        # empty if from none.
        places = _template_frames(error)
        last_file = traceback.extract_tb(error.__traceback__)[-1].filename
        from_template = isinstance(error, jinja2.TemplateRuntimeError) or last_file.endswith(
            TEMPLATE_SUFFIX
        )
        place = places[-1] if places and from_template else ""
        if not place:
            raise
        raise ReportError(f"{place}: {_one_line(error)}; fix the template") from error


def _printable(value: Any) -> Tex:
    # An undefined name says so when it becomes a string.
    if isinstance(value, Markup | jinja2.Undefined):
        return Tex(str(value))
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return Tex(value)
    raise jinja2.TemplateRuntimeError(
        f"a {type(value).__name__} ({value!r}) is printed; give the template formatted text"
    )


def _sentence_list(values: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`; for many, the first two, how many more, and the last; empty
    without values.
    """
    if len(values) > _MOST_LISTED:
        values = [*values[:2], f"{len(values) - 3} more", values[-1]]
    return listed(values) if values else ""


def _key(value: str) -> Tex:
    """A name as it may stand in a label or a path: letters, digits and `_:.-/`, anything else a
    hyphen.
    """
    return Tex(re.sub(r"[^A-Za-z0-9_:./-]", "-", value))


_MOST_LISTED: Final = 20
"""More values than any experiment of the default study has; a reader would skip a longer list."""
_FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "breakable": breakable,
    "join": lambda values, separator=", ": escape(separator).join(map(_printable, values)),
    "key": _key,
    "length": len,
    "list": list,
    "pdf_string": pdf_string,
    "sentence_list": _sentence_list,
    "xml": xml_text,
}


def _template_frames(error: Exception) -> list[str]:
    """`file:line` of each template on the way to the error, the one that was asked for first."""
    frames = traceback.extract_tb(error.__traceback__)
    return [
        f"{frame.filename}:{frame.lineno}"
        for frame in frames
        if frame.filename.endswith(TEMPLATE_SUFFIX)
    ]


def _one_line(error: Exception) -> str:
    return " ".join(str(getattr(error, "message", None) or error).split()).rstrip(".")
