"""Closed forms of the model on floats or numpy arrays; they know neither profiles nor specs nor files."""
