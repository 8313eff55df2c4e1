"""Pages of stores and studies."""
