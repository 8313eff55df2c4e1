"""Set the gate up in a repository.

Its first tests, its configuration, its workflows.
"""
