"""What is asked: the configuration and its check, experiments made of variants, options, workloads,
the machine.
"""
