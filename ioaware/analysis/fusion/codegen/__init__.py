"""Generate the Triton source of a plan."""
