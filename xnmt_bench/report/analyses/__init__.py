"""What else can be read off the stored log-likelihoods: one file an analysis."""
