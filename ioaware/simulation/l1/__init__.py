"""Model the L1 of each SM: which loads it serves."""
