"""Fail a build when a kernel moves more bytes.

The means are snapshots of formulas, budgets, and differences of two versions.
"""
