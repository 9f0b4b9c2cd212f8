"""What `scripts/gpu_check.py` runs: one section a file in `checks/`, each in a process of its own."""
