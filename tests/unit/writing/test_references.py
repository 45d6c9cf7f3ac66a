"""The references of the report: each is cited by a template, and each that a template cites is
there.
"""

import re
from pathlib import Path

REPORT = Path(__file__).parents[3] / "report"


def test_templates_cite_every_reference_and_no_other() -> None:
    templates = "".join(path.read_text("utf-8") for path in REPORT.rglob("*.j2"))
    references = (REPORT / "references.bib").read_text("utf-8")

    cited = set(re.findall(r"gpurep-[a-z0-9]+", templates))

    assert cited == set(re.findall(r"^@\w+\{([^,]+),$", references, re.MULTILINE))
