"""The sections: each file has `check(machine)`, which yields findings."""
