"""What each command is asked for, one dataclass a command; light, so that help and typing errors are quick."""

AUTO = "auto"
