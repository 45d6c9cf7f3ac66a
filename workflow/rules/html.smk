# What Snakemake's HTML report shows, and where: the very files that the PDF is made of, by machine and experiment.

CAPTIONS = "../../report/captions"
ALL_EXPERIMENTS = "all experiments"
WORKLOADS = "workloads"
COMPARED = "machines"


def part_of(name):
    """The experiment that a figure or table is of, by the start of its name; where it is of none alone, all."""
    begun = [experiment for experiment in EXPERIMENTS if f"{name}_".startswith(f"{experiment}_")]
    return max(begun, key=len, default=ALL_EXPERIMENTS)


def shown_document(path, caption):
    return report(path, category="Report", labels={"file": Path(path).name}, caption=f"{CAPTIONS}/{caption}.rst")


def shown_figures(folder, machine):
    """A folder of figures, each with what draw_figures writes about it beside it."""
    return report(
        directory(folder),
        patterns=["{figure}.pdf"],
        category=machine,
        subcategory=lambda wildcards: part_of(wildcards.figure),
        labels=lambda wildcards: {"file": f"figure {wildcards.figure.replace('_', ' ')}"},
        caption=f"{CAPTIONS}/figure.rst",
    )


def shown_csv(path, caption="csv"):
    """A table in the folder of a machine's results."""
    name = Path(path).stem
    return report(
        path,
        category=lambda wildcards: Path(wildcards.results).name,
        subcategory=part_of(name),
        labels={"file": f"table {name.replace('_', ' ')}, as CSV"},
        caption=f"{CAPTIONS}/{caption}.rst",
    )


def shown_tables(folder):
    """The tables as the PDF prints them, in the folder of their machine; some are of several."""
    return report(
        directory(folder),
        patterns=["tab/{table}.tex"],
        category=lambda wildcards: Path(wildcards.table).parent.name or WORKLOADS,
        subcategory=lambda wildcards: part_of(Path(wildcards.table).name),
        labels=lambda wildcards: {"file": f"table {Path(wildcards.table).name.replace('_', ' ')}, as LaTeX"},
        caption=f"{CAPTIONS}/latex.rst",
    )
