"""What each command of `gpu-report` does; the only modules that read and write the
project's paths.
"""
