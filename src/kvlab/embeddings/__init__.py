"""Vectors of texts and search with them: token rows, hidden states, a text encoder, and word matching beside them."""

from kvlab.embeddings.decoder import WordStates, hidden_states, token_rows, word_states
from kvlab.embeddings.minilm import MiniLM
from kvlab.embeddings.pool import last_token_pool, mean_pool
from kvlab.embeddings.search import cosine_top_k, recall_at_k

__all__ = [
    "MiniLM",
    "WordStates",
    "cosine_top_k",
    "hidden_states",
    "last_token_pool",
    "mean_pool",
    "recall_at_k",
    "token_rows",
    "word_states",
]
