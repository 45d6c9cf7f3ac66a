"""What torch.profiler recorded, as tables: `tables` makes them of one trace, or of those of a
record.

trace file -> document -> reading -> Trace -> attribution -> one module per table or family

A table is declared beside the function that makes it, and listed in `tables`. Nothing is imported
here: reading a small trace takes no longer than importing what makes its tables.
"""
