"""Source checkpoints: what a model is (facts), where its tensors lie (headers), and how it is tokenized.

Headers are read first and alone; tensors are memory-mapped and stream one at a time.
"""
