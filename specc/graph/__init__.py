"""ONNX authoring: the canonical target and draft graphs."""
