"""How files and kernels lay out codes, scales and zero points: one layout a file, packed and unpacked bit for bit."""
