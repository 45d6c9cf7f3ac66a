"""What commands print: text from any file, without what a terminal would obey or hide, in an
encoding that it has.

Pages, Markdown and tables get their text through the same `clean`.
"""

import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from reprlib import Repr
from typing import TYPE_CHECKING, Any, Final, TextIO

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.text import Text

_STDERR: Final = 2
_MAY_BE_HIDDEN: Final = re.compile(r"[^ -~]")
_SHORT: Final = Repr()
_SHORT.maxstring = 100


def clean(text: str, *, keep: str = "\n\t") -> str:
    r"""Escape what a terminal obeys or hides: control, format and unassigned characters, lone
    surrogates.

    Args:
        text: Any text; what is escaped already stays as it is.
        keep: Characters to leave; none of them for a name that is to stay on one line.

    Returns:
        The text with `\x1b` in place of an escape character, `\u202e` in place of an override of
        the direction.
    """
    return _MAY_BE_HIDDEN.sub(
        lambda char: (
            char[0]
            if char[0] in keep or char[0].isprintable() or unicodedata.category(char[0]) == "Zs"
            else char[0].encode("unicode_escape").decode()
        ),
        text,
    )


def shortened(value: Any) -> str:
    """A value of somebody's file as an error gives it: printable, and short however long or deep
    the value is.
    """
    return _SHORT.repr(value)


def say(text: str, *, to_stderr: bool = False) -> None:
    """Print the text, cleaned, and a new line; what standard error does not take goes to standard
    output.

    Standard error may be the log of a rule on a disk that is full, and then that is what the text
    is about.
    """
    if not (to_stderr and takes(sys.stderr, f"{clean(text)}\n")):
        _allow_any_character()
        print(clean(text), flush=True)


def takes(stream: TextIO, text: str = "") -> bool:
    """Whether the stream takes the text and what is buffered; if not, these and all later text are
    dropped.

    Otherwise Python would write the buffered text at exit, fail again, and exit with 120.
    """
    try:
        print(text, end="", file=stream, flush=True)
    except OSError:
        with suppress(OSError), Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
        return False
    return True


@contextmanager
def stderr_to(log: Path) -> Iterator[TextIO]:
    """Write standard error to the log, as a rule's `2> {log}` does, and yield what it was before:
    the terminal.

    The file descriptor itself is exchanged, so warnings and tracebacks of every process started
    meanwhile go there too.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as file, os.fdopen(os.dup(_STDERR), "w") as terminal:
        sys.stderr.flush()
        os.dup2(file.fileno(), _STDERR)
        try:
            yield terminal
        finally:
            sys.stderr.flush()
            os.dup2(terminal.fileno(), _STDERR)


def new_console(*, unwrapped_when_piped: bool = False) -> "Console":
    """A console for tables: it cleans every text that it writes, and its own styles still reach a
    terminal.

    Args:
        unwrapped_when_piped: Whether a program that reads the output gets each row in one line,
            however long; a person gets rows as wide as the terminal.
    """
    from rich.console import Console
    from rich.segment import Segment

    class CleanConsole(Console):
        """Cleans texts before their width is measured, and whatever else is rendered."""

        def render_str(self, text: str, **options: Any) -> "Text":
            return super().render_str(clean(text), **options)

        def render(
            self, renderable: "RenderableType", options: "ConsoleOptions | None" = None
        ) -> Iterable["Segment"]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(clean(segment.text), segment.style)

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would exit with 1, which is a verdict

    _allow_any_character()
    width = 10_000 if unwrapped_when_piped and not sys.stdout.isatty() else None
    return CleanConsole(highlight=False, markup=False, emoji=False, width=width)


def print_table(*columns: str, rows: Iterable[Sequence[str]]) -> None:
    """Print the rows below the names of the columns; a program gets each row in one line."""
    from rich.table import Table

    table = Table(*columns, box=None, pad_edge=False, expand=False)
    for row in rows:
        table.add_row(*row)
    new_console(unwrapped_when_piped=True).print(table)


def _allow_any_character() -> None:
    """Have standard output write `?` for what its encoding lacks; standard error escapes that by
    itself.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
