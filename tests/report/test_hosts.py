"""Documents of every kind take the sections, without a complaint of TeX and without a change to
themselves.
"""

from pathlib import Path

import pytest

from tests.report.hosts import HOSTS, Built, Host, build, need
from tests.report.synthetic import render_devices, results_on, write_report

SOME = r"\gpurepsetup{sections={summary,batch_size,implementation}}"
ALL = r"\input{measured/gpu_analysis_sections}"
OTHER_ENGINES = ("lualatex", "xelatex", "tectonic")
BY_OTHER_ENGINES = ("article", "scrartcl", "acmart")
"""A plain one, one with babel and biblatex, one with its own fonts: our package distinguishes
engines in two lines.
"""
IN_EVERY_RUN = ("article-pdflatex", "scrartcl-pdflatex", "IEEEtran-pdflatex")
"""A plain one, a German one with babel and biblatex, one in two columns; the rest is slow."""
NOT_OURS = ("You do not have the", "\\balance in second column", "You have called \\balance")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for documents, with a report inside it."""
    parent = tmp_path_factory.mktemp("hosts")
    write_report(parent / "measured", render_devices("cpu", "cuda"), [results_on("cpu", "cuda")])
    return parent


def of_ours(built: Built, control: Built) -> list[str]:
    """What TeX says of the document with us and not of the one without us."""
    known = set(control.complaints)
    return [
        line
        for line in built.complaints
        if line not in known and not any(word in line for word in NOT_OURS)
    ]


@pytest.mark.parametrize(
    ("host", "engine"),
    [
        pytest.param(
            host,
            engine,
            id=f"{host.name}-{engine}",
            marks=() if f"{host.name}-{engine}" in IN_EVERY_RUN else pytest.mark.slow,
        )
        for host in HOSTS
        for engine in ("pdflatex", *(OTHER_ENGINES if host.name in BY_OTHER_ENGINES else ()))
    ],
)
def test_a_document_takes_the_sections_and_stays_what_it_was(
    host: Host, engine: str, folder: Path
) -> None:
    need(engine, f"{host.name}.cls", "cleveref.sty", "siunitx.sty", "biblatex.sty", "ngerman.ldf")
    sections = ALL if engine == "pdflatex" else SOME + ALL
    name = f"{host.name}-{engine}"

    control = build(
        folder, host.document(sections="", with_us=False), engine=engine, name=f"{name}-without"
    )
    built = build(folder, host.document(sections=sections), engine=engine, name=name)

    assert of_ours(built, control) == []
    assert "??" not in built.text
    assert ("every configuration" if engine == "pdflatex" else "batch size") in built.text.lower()
    assert built.states == control.states
    for page, same_page in ((1, 1), (built.pages, control.pages)):
        words, same_words = built.words(page), control.words(same_page)
        assert [word for word, _ in words] == [word for word, _ in same_words]
        assert [place for _, place in words] == [
            pytest.approx(place, abs=0.02) for _, place in same_words
        ]
        assert built.fonts(page) == control.fonts(same_page)
