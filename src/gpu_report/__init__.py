"""Measure PyTorch training on this machine and turn what was measured into a report."""

__version__ = "0.1.0"
