"""Fail a build when a kernel moves more bytes: snapshots of formulas, budgets, differences of two versions."""
