"""Training what the question engine decides by: samples from pairs, the linear ranking, the cross-encoder, its export.

Not part of serving. Only ``crossencoder.py`` and ``export.py`` need torch (extra ``train``), and import it when called.
"""
