"""Results of commands as lines for a person."""
