"""Compare two runs of measured points: bytes exactly, times by rank, several rows at once."""
