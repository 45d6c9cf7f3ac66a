"""Measure PyTorch training on the machine at hand and turn what was measured into a report."""

__version__ = "0.1.0"
