"""For FastAPI and Starlette: a lifespan, dependencies in jobs, and the web UI behind a dependency.

::

    app = FastAPI(lifespan=lifespan())
    app.add_middleware(CallerId)
    app.include_router(pages(current_staff), prefix="/jobs")

    @job
    @inject
    def welcome(user_id: int, session: Session = Depends(get_session)) -> None: ...

`lifespan` and `CallerId` need only Starlette, so that FastAPI is imported with the other names.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsider.fastapi.dependencies import dependency_overrides, inject
    from offsider.fastapi.router import pages
    from offsider.fastapi.startup import lifespan
    from offsider.integrations.asgi import CallerId

__all__ = ["CallerId", "dependency_overrides", "inject", "lifespan", "pages"]

_ELSEWHERE = {
    "CallerId": "offsider.integrations.asgi",
    "dependency_overrides": "offsider.fastapi.dependencies",
    "inject": "offsider.fastapi.dependencies",
    "pages": "offsider.fastapi.router",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_ELSEWHERE.get(name, "offsider.fastapi.startup")), name)
    globals()[name] = found
    return found
