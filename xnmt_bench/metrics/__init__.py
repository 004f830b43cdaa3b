"""What can be measured of a system and of its explanations: a file or a folder a metric."""
