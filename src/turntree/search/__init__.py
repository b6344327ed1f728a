"""Find turns by words and by meaning: tokenizer, query, rank, index, embeddings."""
