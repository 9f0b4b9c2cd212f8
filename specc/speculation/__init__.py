"""The mathematics shared by compiler and runtime, in NumPy: the oracle that every engine must agree with."""
