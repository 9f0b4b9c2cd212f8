"""Hugging Face checkpoints quantized as ModelOpt stores them: what trtllm-serve, and others, load."""
