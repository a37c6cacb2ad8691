"""PyTorch reference of frozen multi-token prediction and its rivals."""
