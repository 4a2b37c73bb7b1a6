"""Robots with a free base: torques of the joints, and no wrench on the base but that of feet."""
