"""How a variant is measured: fresh processes that train, one more that is profiled, and a record of
what they saw.

measure_variant -> one process per repetition (training.py) -> one profiled process (profiling.py)
-> Record
"""
