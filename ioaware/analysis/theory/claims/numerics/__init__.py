"""Claims on identities in exact arithmetic and on rounding errors."""
