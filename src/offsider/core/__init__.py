"""The lowest layer: values and rules that use only the standard library and do no I/O."""
