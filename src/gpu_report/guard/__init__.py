"""Guarding a training against getting slower: two versions of it measured in turns, in fresh
processes.

versions (two states of a repository, or two Pythons) -> a process of each side in turns -> looks at
what was found so far -> rows of tables.verdicts
"""
