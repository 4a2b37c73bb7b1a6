"""The trajectory loss: windows rolled out by multiple shooting."""
