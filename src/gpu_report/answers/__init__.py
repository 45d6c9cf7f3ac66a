"""What follows from the tables: statements with a verdict, the evidence they rest on, and
recommendations.

Tables -> Scope (what a question looks at) -> Answer (its verdict and statement) -> Finding (as
findings.json has it)
"""
