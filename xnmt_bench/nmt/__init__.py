"""The models being explained, all behind one interface."""
