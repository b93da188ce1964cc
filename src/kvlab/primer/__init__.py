"""The primer: a small language of first-reader stories, its tokenizer, and the models trained on it."""
