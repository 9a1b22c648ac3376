"""Causal language models on onnxruntime: one step with its cache, decoding and scoring over it, and the judge of candidates."""
