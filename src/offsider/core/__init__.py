"""The ground floor: values and rules that need the standard library alone and do no I/O."""
