"""Fits of servo robots: whole motions predicted from their goals and the pose they began in."""
