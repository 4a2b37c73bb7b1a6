"""The search for the numbers of servos: where it starts, what it lowers, how it descends and jumps."""
