"""Other tools' measurement files in, one `Observations` a file out; they know formats, not models of cost."""
