"""Listings cut out of real source files: whole functions by name, keywords and comments marked."""

import ast
import io
import keyword
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpu_report.errors import ReportError
from gpu_report.writing.tex import Tex, breakable


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A Python file; `name` is how the report calls it, for instance
    `src/gpu_report/measure/training.py`.
    """

    name: str
    text: str


@dataclass(frozen=True, kw_only=True)
class ListingLine:
    """One line: its number in the file, by how many characters it is indented, and the rest
    as TeX.
    """

    number: int
    indent: int
    text: Tex


def excerpt(source: SourceFile, functions: Sequence[str]) -> list[list[ListingLine]]:
    """The lines of each function, in the order asked for, with decorators and docstring, indented
    as in the file.

    Raises:
        ReportError: the file is no Python, or has no such function at its top level.
    """
    try:
        tree = ast.parse(source.text)
    except SyntaxError as error:
        raise ReportError(
            f"{source.name}:{error.lineno}: {error.msg}; the report lists this file"
        ) from error
    places = {
        node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    missing = [name for name in functions if name not in places]
    if missing:
        raise ReportError(
            f"{source.name} has no function {missing[0]!r}, which the report lists; name another "
            "one in the template"
        )
    lines = _marked_lines(source.text)
    return [_lines_of(places[name], lines) for name in functions]


def _lines_of(
    node: ast.FunctionDef | ast.ClassDef, lines: Sequence[ListingLine]
) -> list[ListingLine]:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return list(lines[first - 1 : node.end_lineno])


def _marked_lines(text: str) -> list[ListingLine]:
    spans: dict[int, list[tuple[int, int, str]]] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        macro = _macro(token)
        if macro:
            for number, start, end in _spans(token):
                spans.setdefault(number, []).append((start, end, macro))
    return [
        _line(number, line, spans.get(number, []))
        for number, line in enumerate(text.splitlines(), start=1)
    ]


def _macro(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.NAME and keyword.iskeyword(token.string):
        return r"\gpurepkeyword"
    is_docstring = token.type == tokenize.STRING and token.string.startswith(('"""', 'r"""'))
    return r"\gpurepcomment" if token.type == tokenize.COMMENT or is_docstring else ""


def _spans(token: tokenize.TokenInfo) -> Iterable[tuple[int, int, int]]:
    """Line, first and last column of each line of a token."""
    for offset, part in enumerate(token.string.split("\n")):
        start = token.start[1] if offset == 0 else 0
        yield token.start[0] + offset, start, start + len(part)


def _line(number: int, line: str, spans: Sequence[tuple[int, int, str]]) -> ListingLine:
    indent = len(line) - len(line.lstrip())
    text, done = Tex(""), indent
    for start, end, macro in spans:
        begin = max(start, done)
        text += _code(line[done:begin]) + Tex(f"{macro}{{") + _code(line[begin:end]) + Tex("}")
        done = end
    return ListingLine(number=number, indent=indent, text=text + _code(line[done:]))


def _code(text: str) -> Tex:
    """Code with straight quotes, and blanks that TeX keeps."""
    return Tex(str(breakable(text)).replace("'", r"\textquotesingle{}").replace(" ", r"\ "))
