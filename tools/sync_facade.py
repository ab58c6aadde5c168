"""Makes the blocking clients from the asyncio ones: `client/sync/*.py`.

For each class `AsyncX` of a source module it writes a class `X` with the same public methods, signatures
and docstrings, each of one line that hands the call to the portal (`client/sync/portal.py`):

| in `AsyncX` | in `X` |
| --- | --- |
| `async def f(...) -> T`, `def f(...) -> asyncio.Future[T]` | `portal.call`, gives T |
| the latter | also `f_async`: `portal.start`, gives concurrent.futures.Future[T] |
| `async def f(...) -> AsyncIterator[T]` | `portal.iterate`, gives Iterator[T]; where T is `RawPull`: `portal.iterate_ahead` |
| the base `AsyncClient`, `AsyncGroupClient`: the life of a client | `BlockingClient`, `BlockingGroupClient` (`client/sync/client.py`), which calls `__aexit__` |
| `__aiter__` | `__iter__`, which calls it |
| `wait` | `portal.wait` |
| a property, a plain method | read directly; `portal.do` |
| a property with a subject of an admin client, such as `AsyncTopicAdmin` | gives its twin |
| `def f(...) -> AsyncTransaction` | gives a `Transaction` (`client/sync/transaction.py`) |

Anything else in a public method (a decorator, `*args`, another special method, a result that needs a loop) is refused.

`python tools/sync_facade.py` writes, `--check` only says what is stale and ends with 1.
Design note: docs/design/0003-sync-facade.md.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLIENT = ROOT / "src" / "cometmq" / "client"
MODULES = (
    "producer.producer",
    "producer.encoded_producer",
    "consumer.push.push_consumer",
    "consumer.pull.pull_consumer",
    "consumer.pull.queue_reader",
    "consumer.pop.simple_consumer",
    "admin.topics",
    "admin.groups",
    "admin.offsets",
    "admin.messages",
    "admin.dead_letters",
    "admin.transactions",
    "admin.brokers",
    "admin.health",
    "admin.users",
    "admin.admin",
    "admin.replay_claims",
)
PREFIX = "Async"
# The twin has the life of a client from its base, and what the special methods of one do, by `portal.end`.
BASES = {
    "AsyncClient": "BlockingClient",
    "AsyncGroupClient": "BlockingGroupClient",
    "AsyncNoun": "BlockingNoun",
}
OF_BASE = ("__repr__", "__aexit__")
# An argument that only makes sense on the caller's own loop.
LEFT_OUT = "instance"
# What a method gives to be used in `with`: its twin is written by hand.
WRAPPED = {"AsyncTransaction": "Transaction"}
# The subjects of an admin client, whose twins are made; its properties give them.
NOUNS = {
    "AsyncTopicAdmin": "topics",
    "AsyncGroupAdmin": "groups",
    "AsyncOffsetAdmin": "offsets",
    "AsyncMessageAdmin": "messages",
    "AsyncDeadLetterAdmin": "dead_letters",
    "AsyncTransactionAdmin": "transactions",
    "AsyncBrokerAdmin": "brokers",
    "AsyncHealthAdmin": "health",
    "AsyncUserAdmin": "users",
}
# Types that only make sense on a loop.
UNTRANSLATED = re.compile(r"\b(?:Async\w+|Awaitable|Coroutine|asyncio\.\w+)\b")
Function = ast.FunctionDef | ast.AsyncFunctionDef
WORDS = (
    (re.compile(rf"\n *{LEFT_OUT}: .*"), ""),
    (re.compile(r"\basync (with|for)\b"), r"\1"),
    (re.compile(r"\bawait "), ""),
    (
        re.compile(
            r"\bAsync(?=Producer|PushConsumer|PullConsumer|SimpleConsumer|Admin|TopicAdmin|GroupAdmin|OffsetAdmin|MessageAdmin|DeadLetterAdmin|TransactionAdmin|BrokerAdmin|HealthAdmin|UserAdmin|Transaction|ReplayClaims|QueueReader|EncodedProducer)"
        ),
        "",
    ),
)


def main() -> int:
    """Write the made files, or check them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if stale")
    is_check = parser.parse_args().check
    stale = []
    for name in MODULES:
        source = CLIENT / f"{name.replace('.', '/')}.py"
        target = CLIENT / "sync" / f"{name.rpartition('.')[2]}.py"
        made = make(source.read_text(), name)
        if target.exists() and target.read_text() == made:
            continue
        stale.append(target)
        if not is_check:
            target.write_text(made)
    for path in stale:
        print(f"{path.relative_to(ROOT)}: {'stale; run make sync' if is_check else 'written'}")
    return 1 if is_check and stale else 0


def make(source: str, module: str) -> str:
    """The text of one made module.

    Raises:
        ValueError: no class or no awaitable method was found, or a method has something that no rule translates.
    """
    tree = ast.parse(source)
    classes = [
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name.startswith(PREFIX)
    ]
    if not classes:
        raise ValueError(f"{module}.py has no class {PREFIX}…")
    title = f"The blocking `{classes[0].name.removeprefix(PREFIX)}`"
    made_by = f"made by tools/sync_facade.py from cometmq.client.{module}; do not edit"
    # What turns out to be unused is taken out again when the text is laid out.
    own = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    names = own + _constants(tree)
    imports = [ast.unparse(node) for node in tree.body if _is_import(node)]
    nouns = [name for name in NOUNS if f"def {NOUNS[name]}(self) -> {name}:" in source]
    parts = [
        f'"""{title}: {made_by}."""',
        *(each for each in imports if each.startswith("from __future__")),
        "import concurrent.futures",
        "from collections.abc import Iterator",
        f"from cometmq.client.{module} import {', '.join(names)}",
        "from cometmq.client.sync.client import BlockingClient, BlockingGroupClient, BlockingNoun",
        "from cometmq.client.sync.transaction import Transaction",
        *imports,
        *(["if TYPE_CHECKING:"] if nouns else []),
        *(f"    {_twin_import(name)}" for name in nouns),
        *(_class(node) for node in classes),
    ]
    return _laid_out("\n".join(parts))


def _twin_import(noun: str) -> str:
    """Return the import of a subject's twin, which the admin client imports when it is used."""
    return f"from cometmq.client.sync.{NOUNS[noun]} import {noun.removeprefix(PREFIX)}"


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _constants(tree: ast.Module) -> list[str]:
    """Names that a signature may have as its default or type."""
    targets = (node.targets[0] for node in tree.body if isinstance(node, ast.Assign))
    names = (each.id for each in targets if isinstance(each, ast.Name))
    return [name for name in names if not name.startswith("_")]


def _class(node: ast.ClassDef) -> str:
    base = BASES[ast.unparse(node.bases[0])] if node.bases else "object"
    made = [
        f"class {node.name.removeprefix(PREFIX)}({base}[{node.name}]):",
        _docstring(node, 4),
    ]
    awaited = 0
    for item in node.body:
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
            text, is_awaited = _method(item, node.name)
            made.append(text)
            awaited += is_awaited
    if not awaited:
        raise ValueError(f"{node.name} has no method to await")
    return "\n".join(made)


def _method(item: Function, owner: str) -> tuple[str, bool]:
    """The twin of one method, and whether it waits; nothing for a private one, or one that the base calls.

    Raises:
        ValueError: The method has something that no rule translates.
    """
    name = item.name
    if name in OF_BASE:
        return "", False
    if write := WRITERS.get(name):
        return write(item, owner), False
    _check_translatable(item, owner)
    if name.startswith("_"):
        return "", False
    if any(
        isinstance(mark, ast.Name) and mark.id == "property" for mark in item.decorator_list
    ):
        head = f"    @property\n    def {name}(self) -> {_returned(item).removeprefix(PREFIX)}:\n{_docstring(item, 8)}\n"
        if _returned(item) in NOUNS:
            made = _returned(item).removeprefix(PREFIX)
            read = f"        {_twin_import(_returned(item))}\n"
            return (
                f"{head}{read}        return {made}(self._portal, self._client.{name})\n",
                True,
            )
        return f"{head}        return self._client.{name}\n", False
    if wrapped := WRAPPED.get(_returned(item)):
        head = f"    def {name}({_arguments(item)}) -> {wrapped}:\n{_docstring(item, 8)}\n"
        call = f"self._portal.do(self._client.{_call(item)})"
        return f"{head}        return {wrapped}(self._portal, {call})\n", True
    returned, how, _ = _how(item)
    value = f"self._portal.{how}(self._client.{_call(item)})"
    line = f"        {value if returned == 'None' else f'return {value}'}"
    head = f"    def {name}({_arguments(item)}) -> {returned}:\n{_docstring(item, 8)}\n"
    return f"{head}{line}\n{_without_waiting(item)}", True


def _check_translatable(item: Function, owner: str) -> None:
    """Refuse a method of which the twin would leave something out."""
    if item.name.startswith("_") and not item.name.startswith("__"):
        return
    arguments, returned = item.args, _returned(item)
    marks = [ast.unparse(mark) for mark in item.decorator_list]
    left_out = [
        *(f"method {name}" for name in [item.name] if name.startswith("__")),
        *(f"decorator @{mark}" for mark in marks if mark != "property"),
        *(f"argument *{each.arg}" for each in (arguments.vararg, arguments.kwarg) if each),
        *(f"argument {each.arg} by place only" for each in arguments.posonlyargs),
    ]
    if (
        UNTRANSLATED.search(returned)
        and returned not in {*WRAPPED, *NOUNS}
        and not _how(item)[2]
    ):
        left_out.append(f"result {returned}")
    if left_out:
        raise ValueError(f"{owner}.{item.name}: no rule translates {', '.join(left_out)}")


def _without_waiting(item: Function) -> str:
    """The second twin of what gives a future: it gives one, too."""
    if not _returned(item).startswith("asyncio.Future["):
        return ""
    returned = _returned(item).replace("asyncio.", "concurrent.futures.")
    text = (
        f'        """Start `{item.name}` and return a concurrent future of its result or error, without waiting.\n\n'
        f"        Raises:\n            ClientClosed: Called from an async listener, or in the child of a "
        f'fork.\n        """\n'
    )
    return (
        f"    def {item.name}_async({_arguments(item)}) -> {returned}:\n{text}"
        f"        return self._portal.start(self._client.{_call(item)})\n"
    )


def _wait(item: Function, _owner: str) -> str:
    return (
        f"    def wait(self) -> None:\n{_docstring(item, 8)}\n"
        "        self._portal.wait(self._client.wait)\n"
    )


def _init(item: Function, owner: str) -> str:
    kept = [each.arg for each in item.args.args[1:]]
    named = [each.arg for each in item.args.kwonlyargs if each.arg != LEFT_OUT]
    passed = ", ".join([*kept, *(f"{each}={each}" for each in named)])
    return (
        f"    def __init__({_arguments(item)}) -> None:\n"
        f"        super().__init__({owner}({passed}))\n"
    )


def _iter(item: Function, _owner: str) -> str:
    returned = _returned(item).replace("AsyncIterator", "Iterator")
    return (
        f"    def __iter__(self) -> {returned}:\n{_docstring(item, 8)}\n"
        f"        return self._portal.iterate(self._client.__aiter__)\n"
    )


def _how(item: Function) -> tuple[str, str, bool]:
    """The type that the twin returns, the method of the portal that calls it, and whether the type was translated."""
    returned = _returned(item)
    if returned.startswith("AsyncIterator["):
        # Of answers that nobody counts as consumed more may come than were asked for.
        how = "iterate_ahead" if returned == "AsyncIterator[RawPull]" else "iterate"
        return returned.removeprefix("Async"), how, True
    if returned.startswith("asyncio.Future["):
        return returned.removeprefix("asyncio.Future[").removesuffix("]"), "call", True
    return returned, "call" if isinstance(item, ast.AsyncFunctionDef) else "do", False


def _returned(item: Function) -> str:
    return ast.unparse(item.returns) if item.returns else "None"


def _arguments(item: Function) -> str:
    arguments = item.args
    places = [place for place, each in enumerate(arguments.kwonlyargs) if each.arg != LEFT_OUT]
    return ast.unparse(
        ast.arguments(
            posonlyargs=arguments.posonlyargs,
            args=arguments.args,
            vararg=arguments.vararg,
            kwonlyargs=[arguments.kwonlyargs[place] for place in places],
            kw_defaults=[arguments.kw_defaults[place] for place in places],
            kwarg=arguments.kwarg,
            defaults=arguments.defaults,
        )
    )


def _call(item: Function) -> str:
    """The bound method and its arguments, as the portal is given them."""
    passed = _passed(item)
    return f"{item.name}, {passed}" if passed else item.name


def _passed(item: Function) -> str:
    """The arguments, handed on by their names."""
    arguments = item.args
    passed = [each.arg for each in arguments.args[1:]]
    passed += [f"{each.arg}={each.arg}" for each in arguments.kwonlyargs]
    return ", ".join(passed)


def _docstring(node: ast.ClassDef | Function, indent: int) -> str:
    text = ast.get_docstring(node, clean=True)
    if text is None:
        return ""
    for pattern, replacement in WORDS:
        text = pattern.sub(replacement, text)
    lines = [" " * indent + line if line else "" for line in text.splitlines()]
    mark = "r" if "\\" in text else ""
    end = "" if len(lines) == 1 else "\n" + " " * indent
    return " " * indent + mark + '"""' + "\n".join(lines).lstrip() + end + '"""'


def _laid_out(text: str) -> str:
    for command in (
        [
            "check",
            "--quiet",
            "--fix-only",
            "--select",
            "F401,I,F811",
            "--stdin-filename",
            "x.py",
            "-",
        ],
        ["format", "--quiet", "--stdin-filename", "x.py", "-"],
    ):
        text = subprocess.run(
            [Path(sys.executable).with_name("ruff"), *command],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
    return text


WRITERS: dict[str, Callable[[Function, str], str]] = {
    "__init__": _init,
    "__aiter__": _iter,
    "wait": _wait,
}


if __name__ == "__main__":
    sys.exit(main())
