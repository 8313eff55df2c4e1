"""Handle a program's expressions: identities, numbers, proven intervals, text."""
