"""Systems that read more than the current sentence, and how they are trained."""
