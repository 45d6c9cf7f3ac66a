"""Listings cut out of real source files: whole functions by name, keywords and comments marked."""

import ast
import io
import keyword
import tokenize
from collections.abc import Sequence
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
    listings = []
    for name in functions:
        node = places[name]
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        listings.append(lines[first - 1 : node.end_lineno])
    return listings


def _marked_lines(text: str) -> list[ListingLine]:
    lines = text.splitlines()
    indents = [len(line) - len(line.lstrip()) for line in lines]
    texts, done = [Tex("")] * len(lines), list(indents)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_docstring = token.type == tokenize.STRING and token.string.startswith(('"""', 'r"""'))
        if token.type == tokenize.NAME and keyword.iskeyword(token.string):
            macro = r"\gpurepkeyword"
        elif token.type == tokenize.COMMENT or is_docstring:
            macro = r"\gpurepcomment"
        else:
            continue
        row, start = token.start
        for at, part in enumerate(token.string.split("\n"), start=row - 1):
            line, begin, end = lines[at], max(start, done[at]), start + len(part)
            marked = Tex(f"{macro}{{") + _code(line[begin:end]) + Tex("}")
            texts[at] += _code(line[done[at] : begin]) + marked
            done[at], start = end, 0  # the next lines of the token begin at the left
    return [
        ListingLine(number=number, indent=indent, text=marked + _code(line[end:]))
        for number, (line, indent, marked, end) in enumerate(
            zip(lines, indents, texts, done, strict=True), start=1
        )
    ]


def _code(text: str) -> Tex:
    """Code with straight quotes, and blanks that TeX keeps."""
    return Tex(str(breakable(text)).replace("'", r"\textquotesingle{}").replace(" ", r"\ "))
