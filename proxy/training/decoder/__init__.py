"""A language model's Hugging Face folder → the ONNX folder that proxy/nl/lm runs. Needs the package ``onnx``, never torch."""
