"""Execute the part of a kernel's IR that determines its accesses."""
