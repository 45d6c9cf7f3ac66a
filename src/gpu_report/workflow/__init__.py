"""The rules of Snakemake, from configuration to PDF; the Snakefile of a study includes them."""

from pathlib import Path
from typing import Final

RULES: Final = str(Path(__file__).with_name("study.smk"))
