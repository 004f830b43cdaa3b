"""fairseq's systems, read without fairseq."""
