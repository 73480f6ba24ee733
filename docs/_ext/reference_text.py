"""The reference as text: signatures and docstrings stand on its pages, so that they can be read in the repository.

A page holds the directives in a comment, which begins with ``<!-- reference``, and below it the text that
``python docs/_ext/reference_text.py`` makes of them (``make outputs``), up to ``<!-- end of reference -->``. The site
takes the directives and leaves out the text. `tests/project/test_docs_pages.py` holds that the text is up to date.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import command_help
import methods_by_name
import target_kinds
from docstring_markdown import markdown
from page_tables import table
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

from fbar.system.files import write_text

PAGES = Path(__file__).parents[1] / "reference"
BLOCK = re.compile(
    r"<!-- reference\n(?P<source>.*?)\n-->\n(?:(?:(?!<!-- reference\n).)*?<!-- end of reference -->\n)?", re.S
)
"""A comment, and the text that was made of it: none yet in a block that is new."""

DIRECTIVE = re.compile(r"^\.\. (?P<kind>[\w-]+)::(?: (?P<name>\S+))?\n?(?P<options>(?:   .*\n?|\n)*)", re.M)
WIDTH = 100


def texts(source: str) -> Iterator[str]:
    """The text of each directive."""
    inside = ""
    for found in DIRECTIVE.finditer(source):
        name, options = found["name"] or "", dict(re.findall(r":([\w-]+):[ ]?(.*)", found["options"]))
        match found["kind"]:
            case "currentmodule":
                inside = name
            case "automodule":
                yield from _module(importlib.import_module(name), options)
            case "autofunction":
                yield "\n\n".join(_function(_full(name, inside)))
            case "autoclass":
                yield from Class(_full(name, inside), options).texts()
            case "command-help":
                yield "\n".join(command_help.listed())
            case "methods-by-name":
                yield table(methods_by_name.HEADINGS, [(f"`{n}`", *rest) for n, *rest in methods_by_name.rows()])
            case "target-kinds":
                yield "\n".join(target_kinds.listed())


def _full(name: str, inside: str) -> str:
    return name if name.startswith("fbar.") else f"{inside}.{name}"


def _found(name: str) -> Any:
    """What a full name stands for."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            thing: Any = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            thing = getattr(thing, part)
        return thing
    raise LookupError(name)


def _module(module: ModuleType, options: dict[str, str]) -> Iterator[str]:
    yield markdown(inspect.getdoc(module) or "")
    for name in filter(None, (name.strip() for name in options.get("members", "").split(","))):
        thing = getattr(module, name)
        full = f"{module.__name__}.{name}"
        if inspect.isclass(thing):
            yield from Class(full, options={}).texts()
        else:
            yield "\n\n".join(_function(full))


def _function(full: str) -> Iterator[str]:
    thing = _found(full)
    yield f"### `{full}`"
    yield _python(f"{full}{_signature(thing)}")
    yield markdown(inspect.getdoc(thing) or "")


@dataclass(frozen=True)
class Class:
    """A class with those of its members that have documentation."""

    full: str
    options: dict[str, str]

    @cached_property
    def thing(self) -> type:
        found = _found(self.full)
        assert isinstance(found, type), self.full
        return found

    def texts(self) -> Iterator[str]:
        bases = ", ".join(base.__name__ for base in self.thing.__bases__ if base is not object)
        exception = issubclass(self.thing, BaseException)
        given = f"({bases})" if exception else _signature(self.thing)
        doc = inspect.cleandoc(self.thing.__doc__ or "")
        parts = [f"### `{self.full}`", _python(f"class {self.full}{given}"), markdown(doc)]
        attributes = [line for name in self.members for line in self._attribute(name)]
        if attributes:
            parts.append("\n".join(attributes))
        yield "\n\n".join(parts)
        for name in self.members:
            yield from self._method(name)

    @cached_property
    def members(self) -> list[str]:
        """Names of members in the order of the source, those of bases after the class's own."""
        if "members" not in self.options:
            return []
        bases: Sequence[type] = (self.thing,)
        if "inherited-members" in self.options:
            stop = {name.strip() for name in self.options["inherited-members"].split(",")} | {"object", "Generic"}
            bases = [base for base in self.thing.__mro__ if base.__name__ not in stop]
        wanted = [name.strip() for name in self.options["members"].split(",") if name.strip()]
        found = dict.fromkeys(name for base in bases for name in _by_source(base))
        return [name for name in found if (name in wanted if wanted else not name.startswith("_"))]

    def _attribute(self, name: str) -> Iterator[str]:
        """A field or a property as an item of a list."""
        member = inspect.getattr_static(self.thing, name, None)
        doc = _attribute_doc(self.thing, name)
        kind = ""
        if not doc and isinstance(member, (property, cached_property)):
            getter = member.fget if isinstance(member, property) else member.func
            doc, kind = inspect.getdoc(member) or "", _annotation(inspect.signature(getter).return_annotation)
        if doc:
            yield f"- `{name}{f': {kind}' if kind else ''}`: {' '.join(markdown(doc).split())}"

    def _method(self, name: str) -> Iterator[str]:
        member = inspect.getattr_static(self.thing, name, None)
        own = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if not inspect.isfunction(own) or _attribute_doc(self.thing, name):
            return
        doc = inspect.getdoc(getattr(self.thing, name))
        if not doc:
            return
        kind = "classmethod " if isinstance(member, classmethod) else ""
        kind = "staticmethod " if isinstance(member, staticmethod) else kind
        short = f"{self.thing.__name__}.{name}"
        call = _signature(getattr(self.thing, name), drop_self=not kind)
        yield "\n\n".join([f"#### `{short}`", _python(f"{kind}{short}{call}"), markdown(doc)])


def _by_source(thing: type) -> list[str]:
    """The public names of a class's own body, in the order of the source."""
    order = ModuleAnalyzer.for_module(thing.__module__)
    order.analyze()
    prefix = f"{thing.__qualname__}."
    names = {*vars(thing), *(name for owner, name in order.attr_docs if owner == thing.__qualname__)}
    return sorted(names, key=lambda name: (order.tagorder.get(prefix + name, 10**6), name))


def _attribute_doc(thing: type, name: str) -> str:
    """The string below a field's definition, in the class or the nearest base that has one."""
    for base in thing.__mro__:
        if base.__module__.startswith("fbar"):
            analyzer = ModuleAnalyzer.for_module(base.__module__)
            analyzer.analyze()
            if (base.__qualname__, name) in analyzer.attr_docs:
                return "\n".join(analyzer.attr_docs[base.__qualname__, name]).strip()
    return ""


def _python(code: str) -> str:
    return f"```python\n{code}\n```"


def _signature(thing: Any, *, drop_self: bool = False) -> str:
    """The parameters, one a line where they need more than one."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    parameters = list(signature.parameters.values())
    if drop_self and parameters and parameters[0].name == "self":
        parameters = parameters[1:]
    shown: list[str] = []
    kinds = [parameter.kind for parameter in parameters]
    for i, parameter in enumerate(parameters):
        keyword_only = parameter.kind is parameter.KEYWORD_ONLY
        if keyword_only and (i == 0 or kinds[i - 1] not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)):
            shown.append("*")
        shown.append(_parameter(parameter))
        if parameter.kind is parameter.POSITIONAL_ONLY and kinds[i + 1 : i + 2] != [parameter.POSITIONAL_ONLY]:
            shown.append("/")
    returned = "" if inspect.isclass(thing) else _annotation(signature.return_annotation)
    end = f" -> {returned}" if returned and returned != "None" else ""
    line = f"({', '.join(shown)}){end}"
    if len(line) > WIDTH - 30:
        return "(\n" + "".join(f"    {item},\n" for item in shown) + f"){end}"
    return line


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    kind = _annotation(parameter.annotation)
    text = f"{stars}{parameter.name}{f': {kind}' if kind else ''}"
    if parameter.default is parameter.empty:
        return text
    return f"{text} = {_default(parameter.default)}" if kind else f"{text}={_default(parameter.default)}"


def _annotation(annotation: Any) -> str:
    if annotation in (inspect.Parameter.empty, None):
        return ""
    return annotation.strip("'\"") if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if inspect.isroutine(value) or inspect.isclass(value):
        return str(value.__name__)
    text = repr(value)
    return "..." if text.startswith("<") else text


# ---------------------------------------------------------------- pages


def refreshed(text: str) -> str:
    """A page with the text of its directives as it is now."""

    def block(found: re.Match[str]) -> str:
        made = "".join(f"\n{part}\n" for part in texts(found["source"]) if part)
        return f"<!-- reference\n{found['source']}\n-->\n{made}\n<!-- end of reference -->\n"

    return BLOCK.sub(block, text)


def with_directives(text: str) -> str:
    """A page for the site: the directives in place of comments and text, and blank lines for what is left."""

    def block(found: re.Match[str]) -> str:
        own = re.fullmatch(r"\.\. (target-kinds|command-help)::", found["source"].strip())
        source = f"```{{{own[1]}}}\n```" if own else f"```{{eval-rst}}\n{found['source']}\n```"
        return source + "\n" * (found[0].count("\n") - source.count("\n"))

    return BLOCK.sub(block, text)


def take_directives(app: Sphinx, docname: str, content: list[str]) -> None:
    if docname.startswith("reference/"):
        content[0] = with_directives(content[0])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", take_directives)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def main() -> None:
    for page in sorted(PAGES.glob("*.md")):
        before = page.read_text(encoding="utf-8")
        after = refreshed(before)
        if after != before:
            write_text(page, after)
            print(page.relative_to(PAGES.parents[1]))


if __name__ == "__main__":
    main()
