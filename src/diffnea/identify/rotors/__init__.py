"""Flying bodies: thrust and drag by regression of velocities, and what they leave of the state ahead by another."""
