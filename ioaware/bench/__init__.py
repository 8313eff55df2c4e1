"""Compare the speed of attention back ends in one interleaved run: `ioaware bench attention`."""
