"""What else can be read off stored measurements, of any metric: one file an analysis."""
