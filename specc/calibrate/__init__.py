"""Calibration: what goes into each linear layer while the float32 target reads some texts, on ONNX Runtime."""
