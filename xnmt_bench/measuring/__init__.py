"""What a metric is: its columns, its units on disk, its measurements, the bootstrap."""
