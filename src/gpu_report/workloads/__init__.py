"""What is trained: one file per workload, each behind the protocol in
`gpu_report.workloads.protocol`.
"""
