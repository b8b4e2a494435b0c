"""The scripts of batches."""
