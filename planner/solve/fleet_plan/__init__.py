"""Several services on shared GPUs, quarter by quarter: forecast, size, optimise, replay."""
