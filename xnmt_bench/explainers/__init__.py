"""One small file for each relevance function phi(w; y, c_t)."""
