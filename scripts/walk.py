"""Follow one parameter through src, and count the changes of module.

    python scripts/walk.py [MODULE:FUNCTION:PARAMETER]     default: worker.settle.settlement:Settlement.settle:unit

Prints the figures of the table in docs/internals/architecture.md, then each stay.

1. The walk reads calls in the order of the source and follows those that receive the parameter, an attribute of it,
   or a value that was made from it. Each function is walked once.
2. A stay is a sequence of entered functions in one module. A climb enters a module of a higher layer of pyproject.toml.
   A return enters a module that the walk has left before.
3. Callees are resolved by imports, by ``self``, and by the annotated type of an attribute. Abstract methods and
   functions of other packages end the walk.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "offsider"
START = "worker.settle.settlement:Settlement.settle:unit"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Module:
    """One module: its functions, the names that it imports, and the types of attributes by class."""

    name: str
    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    imports: dict[str, str] = field(default_factory=dict[str, str])
    attributes: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])


class Walk:
    """One walk; ``stays`` are the modules in the order of entering."""

    def __init__(self, modules: dict[str, Module]) -> None:
        self.modules = modules
        self.stays: list[str] = []
        self._walked: set[tuple[str, str]] = set()

    def follow(self, module: Module, qualified: str, parameters: set[str]) -> None:
        """Walk one function, whose ``parameters`` carry the value."""
        if (module.name, qualified) in self._walked:
            return
        self._walked.add((module.name, qualified))
        carried = set(parameters)
        for node in _in_order(module.functions[qualified]):
            if isinstance(node, ast.Assign) and _mentions(node.value, carried):
                carried |= {
                    name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)
                }
            elif isinstance(node, ast.Call):
                self._call(module, qualified, node, carried)

    def _call(self, module: Module, qualified: str, call: ast.Call, carried: set[str]) -> None:
        places = [number for number, value in enumerate(call.args) if _mentions(value, carried)]
        received = {keyword.arg for keyword in call.keywords if keyword.arg and _mentions(keyword.value, carried)}
        found = self._resolve(module, qualified, call.func)
        if found is None:
            return
        callee, name = found
        arguments = callee.functions[name].args
        names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
        if "." in name and names[:1] in (["self"], ["cls"]):
            names = names[1:]
        received |= {names[number] for number in places if number < len(names)}
        if (callee.name, name) in self._walked or not received:
            return
        if not self.stays or self.stays[-1] != callee.name:
            self.stays.append(callee.name)
        self.follow(callee, name, received)

    def _resolve(self, module: Module, qualified: str, function: ast.expr) -> tuple[Module, str] | None:
        owner = qualified.rpartition(".")[0]
        match function:
            case ast.Name(id=name):
                return self._named(module, name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return self._method(module, owner, name)
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=attribute), attr=name):
                return self._of_type(module, module.attributes.get((owner, attribute), ""), name)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in module.imports:
                target = self.modules.get(module.imports[name])
                return None if target is None else self._named(target, attribute)
            case _:
                return None

    def _named(self, module: Module, name: str) -> tuple[Module, str] | None:
        """A function, or the constructor of a class."""
        if name in module.imports:
            home, _, name = module.imports[name].rpartition(".")
            if home not in self.modules:
                return None
            module = self.modules[home]
        for candidate in (name, f"{name}.__init__"):
            if candidate in module.functions:
                return module, candidate
        return None

    def _of_type(self, module: Module, kind: str, method: str) -> tuple[Module, str] | None:
        if kind in module.imports:
            home, _, kind = module.imports[kind].rpartition(".")
            if home not in self.modules:
                return None
            module = self.modules[home]
        return self._method(module, kind, method)

    def _method(self, module: Module, owner: str, name: str) -> tuple[Module, str] | None:
        function = module.functions.get(f"{owner}.{name}")
        if function is None or any("abstractmethod" in ast.unparse(mark) for mark in function.decorator_list):
            return None
        return module, f"{owner}.{name}"


def main() -> int:
    name, qualified, parameter = (sys.argv[1] if len(sys.argv) > 1 else START).split(":")
    modules = {module.name: module for module in map(read, sorted(SOURCE.rglob("*.py")))}
    walk, start = Walk(modules), f"offsider.{name}"
    walk.stays.append(start)
    walk.follow(modules[start], qualified, {parameter})
    heights = [height_of(stay) for stay in walk.stays]
    climbs = sum(after > before for before, after in pairwise(heights))
    returns = sum(stay in walk.stays[:number] for number, stay in enumerate(walk.stays))
    print(f"{parameter} from {qualified}: {len(walk.stays)} stays, {climbs} climbs, {returns} returns")
    for height, stay in zip(heights, walk.stays, strict=True):
        print(f"  layer {height}  {stay}")
    return 0


def read(path: Path) -> Module:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    module = Module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            module.imports |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    for statement in tree.body:
        if isinstance(statement, Function):
            module.functions[statement.name] = statement
        elif isinstance(statement, ast.ClassDef):
            for member in statement.body:
                if isinstance(member, Function):
                    module.functions[f"{statement.name}.{member.name}"] = member
                    _note_attributes(module, statement.name, member)
    return module


def _note_attributes(module: Module, owner: str, function: Function) -> None:
    """The types of attributes that are assigned from an annotated parameter or from a call of a class."""
    arguments = (*function.args.args, *function.args.kwonlyargs)
    types = {each.arg: ast.unparse(each.annotation).split(" |")[0] for each in arguments if each.annotation}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            kind = types.get(node.value.id, "") if isinstance(node.value, ast.Name) else ""
            if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
                kind = node.value.func.id
            module.attributes[owner, node.targets[0].attr] = kind


def height_of(module: str) -> int:
    """Return the layer of a module, 1 for the lowest."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    package = module.split(".")[1]
    return next(number for number, layer in enumerate(reversed(layers), 1) if f"({package})" in layer)


def _in_order(function: Function) -> Iterator[ast.AST]:
    """The nodes of a function by place, calls behind those in their arguments."""
    nodes = [node for node in ast.walk(function) if hasattr(node, "lineno")]
    yield from sorted(nodes, key=lambda node: (node.end_lineno, node.end_col_offset))  # type: ignore[attr-defined]


def _mentions(value: ast.expr, names: set[str]) -> bool:
    return any(isinstance(node, ast.Name) and node.id in names for node in ast.walk(value))


if __name__ == "__main__":
    sys.exit(main())
