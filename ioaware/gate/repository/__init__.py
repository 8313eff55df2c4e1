"""The kernels of a repository, and the ledger of the tests that gate them."""
