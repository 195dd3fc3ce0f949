"""Worker processes of the coverage tools: a crash or a hang ends a worker, never the run."""
