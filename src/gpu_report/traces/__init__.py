"""What the profiler saw: a trace of torch.profiler, tabulated; `gpu_report.traces.of_record` is for a record's trace.

trace file -> reading -> Trace -> tabulating -> TraceRows -> tables: CSV files, TraceTables; `schema` declares them

Nothing is imported here: reading a small trace takes no longer than importing what makes all its tables.
"""
