"""One file for each metric; each score carries its signature."""
