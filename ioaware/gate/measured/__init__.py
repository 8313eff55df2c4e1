"""Compare two runs of measured points.

Bytes are compared exactly, times by rank, several rows at once.
"""
