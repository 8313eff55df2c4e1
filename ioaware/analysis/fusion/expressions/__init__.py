"""Expressions of a program: identities, numbers, proven intervals, text."""
