"""Compare the speed of attention back ends in one interleaved run.

The command is `ioaware bench attention`.
"""
