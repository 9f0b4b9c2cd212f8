"""Quantization arithmetic: codes and scales from floats and back, and the layouts that files and kernels pack them in.

Pure functions of arrays, one matrix at a time. What is quantized how is the Plan's decision.
"""
