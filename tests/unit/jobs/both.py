"""One job in two forms, for tests that hold for functions and classes alike."""

from offsider import Job, job


def make_function(**declaration):
    @job(**{"name": "add", **declaration})
    def add(a: int, b: int = 2, *, c: int = 3) -> int:
        """Add three numbers."""
        return a + b + c

    return add


def make_class(**declaration):
    class Add(Job, **{"name": "add", **declaration}):
        def perform(self, a: int, b: int = 2, *, c: int = 3) -> int:
            return a + b + c

    return Add
