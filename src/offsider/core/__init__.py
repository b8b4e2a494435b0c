"""The lowest layer: values and rules that do no I/O, and need only the standard library."""
