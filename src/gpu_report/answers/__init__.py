"""What follows from the tables: statements with a verdict, the evidence they rest on, and
recommendations.

Tables -> Scope (what a rule looks at) -> Outcome (its verdict and numbers) -> Finding (a statement
in words)
"""
