"""Text in which the words that decide another word are known, since they were planted."""
