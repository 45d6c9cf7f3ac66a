"""The references of the report: each is cited by a template, and each that a template cites is
there.
"""

import re

from gpu_report.writing.environment import TEMPLATES


def test_templates_cite_every_reference_and_no_other() -> None:
    templates = "".join(path.read_text("utf-8") for path in TEMPLATES.rglob("*.j2"))
    references = (TEMPLATES / "references.bib").read_text("utf-8")

    cited = set(re.findall(r"gpurep-[a-z0-9]+", templates))

    assert cited == set(re.findall(r"^@\w+\{([^,]+),$", references, re.MULTILINE))
