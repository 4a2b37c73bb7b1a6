"""Structure: what recordings of a robot can determine at all, whatever their noise."""
