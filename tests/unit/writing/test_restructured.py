"""Text in captions of the HTML report is shown as it is, whatever it holds."""

from dataclasses import dataclass

from docutils.core import publish_doctree  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.figures.kind import Subject
from gpu_report.writing.restructured import escaped, figure_description

BATCH_SIZE = Subject(name="batch_size", axis="batch_size", baseline="16")
WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip)


@dataclass(frozen=True, kw_only=True)
class Described:
    title: str
    caption: str
    alt: str
    name: str = "batch_size_throughput"
    kind: str = "throughput"
    subject: Subject = BATCH_SIZE


@given(WORDS)
def test_no_character_is_read_as_markup(text: str) -> None:
    document = publish_doctree(f"Before {escaped(text)} after", settings_overrides={"report_level": 1, "halt_level": 1})

    assert " ".join(document.astext().split()) == " ".join(f"Before {text} after".split())


def test_a_description_has_title_caption_and_the_picture_in_words() -> None:
    figure = Described(title="A *title*", caption="1. What `to` see | here_.", alt=".. raw:: html")

    document = publish_doctree(figure_description(figure))

    assert document.astext() == "A *title*. 1. What `to` see | here_.\n\nIn words: .. raw:: html"
