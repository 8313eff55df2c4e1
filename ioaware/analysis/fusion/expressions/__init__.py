"""Handle the expressions of a program: identities, numbers, proven intervals, text."""
