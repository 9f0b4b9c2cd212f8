"""Source of the kernels, in Triton. Only a process that compiles or interprets them imports these modules.

Conventions, from what TensorRT passes to a plugin compiled ahead: pointers of inputs, int32 scalars, pointers of
outputs, and nothing else; no floating-point scalars, no workspace, one kernel an operator. Pointers of inputs that a
mode does not have are None. Names in capitals are sizes; those with `tl.constexpr` are fixed when compiled.

`specc/speculation/` is the oracle. Checked by: tests/numerics/test_kernels.py
"""

from __future__ import annotations
