"""Generators of the prompt texts, one file a task family; they know no model and no tokenizer."""
