"""From requested bytes to HBM bytes: launches replayed through a model of the L2 and of the order of the programs."""
