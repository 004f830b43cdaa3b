"""Files of sentences and annotation, as other projects write them."""
