"""Text in captions of the HTML report is shown as it is, whatever it holds."""

from docutils.core import publish_doctree  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from gpu_report.figures.declaration import FigureSpec
from gpu_report.writing.restructured import escaped, figure_description

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip)


@given(WORDS)
def test_no_character_is_read_as_markup(text: str) -> None:
    document = publish_doctree(f"Before {escaped(text)} after", settings_overrides={"report_level": 1, "halt_level": 1})

    assert " ".join(document.astext().split()) == " ".join(f"Before {text} after".split())


def test_a_description_has_title_caption_and_the_picture_in_words() -> None:
    figure = FigureSpec(
        name="batch_size_throughput",
        subject="batch_size",
        kind="throughput",
        title="A *title*",
        caption="1. What `to` see | here_.",
        alt=".. raw:: html",
        drawing=Figure,
    )

    document = publish_doctree(figure_description(figure))

    assert document.astext() == "A *title*. 1. What `to` see | here_.\n\nIn words: .. raw:: html"
