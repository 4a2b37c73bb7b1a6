"""Workers: processes on this machine or a Ray cluster that cells run on, one run a folder at a time."""
