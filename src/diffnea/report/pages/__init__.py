"""Pages: each module one HTML file that needs nothing else."""
