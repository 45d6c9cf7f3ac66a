"""The networks of the workloads that come with the tool, as pictures whose layers add up to what was measured.

records -> models (layers with sizes and parameters) -> ArchitectureSpec -> Figure
"""
