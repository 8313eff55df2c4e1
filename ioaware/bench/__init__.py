"""The speed of attention, back end against back end in one interleaved run: `ioaware bench attention`."""
