"""Import the application that a worker runs: modules, ``.py`` files and folders.

1. Put the current folder on the import path, as ``python -m`` does.
2. Let the web application configure the worker, if there is one.
3. Import each target. A file is imported under its name in its package, so that its jobs have the same stored names
   as those that the web process pushes. For a folder, import every module directly inside.
4. Call the functions of `configure_client`, then the function ``configure(config)`` of each imported module that has
   another one, in import order.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from offsider.cli.failure import explain
from offsider.config.default import configure_as_default
from offsider.core.errors import ConfigurationError
from offsider.jobs.loadable import import_name

if TYPE_CHECKING:
    from offsider.config.config import Config


# Errors of the application: a Ctrl-C or TERM during the import raises StoppedEarly, never KeyboardInterrupt.
ITS_OWN = (Exception, SystemExit, KeyboardInterrupt)


class BrokenApplication(ConfigurationError):
    """The application could not be imported or configured; the cause is chained."""


def folder_beside(targets: Sequence[str]) -> Path | None:
    """Return the folder of the first target, a possible location of a configuration file, without importing it."""
    for target in targets:
        path = Path(target)
        if path.is_dir():
            return path
        if path.suffix == ".py":
            return path.parent
        return _folder_of_module(target)
    return None


def has_application(config: Config) -> bool:
    """Whether there is something to load or loaded already: a module of ``-r``, or the application of a framework."""
    return bool(config.worker.require or config.application)


def load_application(targets: Iterable[str], config: Config) -> list[ModuleType]:
    """Let the web application configure the worker, then import every target and let it do the same.

    Raises:
        BrokenApplication: a target is missing or raised an error; the message names the line in the user's code.
    """
    _put_on_path(Path.cwd())
    modules: list[ModuleType] = []
    if config.application is not None:
        try:
            config.application.configure(config)
        except ITS_OWN as error:
            raise BrokenApplication(explain(f"cannot load {config.application.origin}", error)) from error
    for target in targets:
        try:
            modules += _import_target(target)
        except BrokenApplication:
            raise
        except ITS_OWN as error:
            raise BrokenApplication(explain(f"cannot load {target}", error)) from error
    try:
        configure_as_default(config)
    except ITS_OWN as error:
        raise BrokenApplication(explain("a function of configure_client failed", error)) from error
    _configure(modules, config)
    install_periodic(config)
    return modules


def _import_target(target: str) -> list[ModuleType]:
    path = Path(target)
    if path.is_dir():
        return list(_import_folder(path.resolve()))
    if path.suffix == ".py":
        if not path.is_file():
            raise BrokenApplication(f"cannot load {target}: file not found")
        return [_import_file(path.resolve())]
    if ":" in target:
        module = target.partition(":")[0]
        raise BrokenApplication(f"cannot load {target}: name only the module, as in -r {module}")
    return [_import_module(target)]


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Only if the target itself is missing, not a module that the target imports.
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise BrokenApplication(
                f"cannot load {name}: no module {error.name!r} in the current folder or on PYTHONPATH"
            ) from error
        raise


def _import_file(path: Path) -> ModuleType:
    root, name = import_name(path)
    _put_on_path(root)
    if not all(part.isidentifier() for part in name.split(".")):
        return _import_by_path(path, name)
    module = importlib.import_module(name)
    if module.__file__ is None or Path(module.__file__).resolve() != path:
        raise BrokenApplication(f"cannot load {path}: another module has the name {name!r} ({module.__file__})")
    return module


def _import_by_path(path: Path, name: str) -> ModuleType:
    loader = SourceFileLoader(name, str(path))
    module = importlib.util.module_from_spec(ModuleSpec(name, loader, origin=str(path)))
    sys.modules[name] = module
    loader.exec_module(module)
    return module


def _import_folder(folder: Path) -> Iterator[ModuleType]:
    found = sorted(
        info.name for info in pkgutil.iter_modules([str(folder)]) if not info.ispkg and not info.name.startswith("_")
    )
    if not found and not (folder / "__init__.py").exists():
        raise BrokenApplication(f"cannot load {folder}: the folder contains no Python module")
    if (folder / "__init__.py").exists():
        root, name = import_name(folder / "__init__.py")
        _put_on_path(root)
        yield importlib.import_module(name)
        yield from (importlib.import_module(f"{name}.{module}") for module in found)
    else:
        yield from (_import_file(folder / f"{module}.py") for module in found)


def _put_on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _folder_of_module(name: str) -> Path | None:
    top = name.partition(".")[0]
    for entry in (str(Path.cwd()), *sys.path):
        for candidate in (Path(entry) / top, Path(entry) / f"{top}.py"):
            if candidate.exists():
                return Path(entry)
    return None


def _configure(modules: Iterable[ModuleType], config: Config) -> None:
    done: set[object] = {*config.configured_by}
    for module in modules:
        function = getattr(module, "configure", None)
        if not inspect.isfunction(function) or function in done or not _is_its_own(function.__module__, module):
            continue
        done.add(function)
        if inspect.iscoroutinefunction(function):
            raise BrokenApplication(f"{module.__name__}.configure(config) must be a plain function, not async")
        try:
            function(config)
        except ITS_OWN as error:
            raise BrokenApplication(explain(f"{module.__name__}.configure(config) failed", error)) from error


def install_periodic(config: Config) -> None:
    """Add the extension for periodic jobs if the configuration file declares some."""
    if config.periodic and "periodic" not in config.extensions:
        from offsider.ext.periodic import Periodic  # with it come time zones, which most workers do not need

        config.use(Periodic())


def _is_its_own(defined_in: str, module: ModuleType) -> bool:
    """Whether the application defines the function: ``from structlog import configure`` must not be called."""
    return defined_in.partition(".")[0] == module.__name__.partition(".")[0]
