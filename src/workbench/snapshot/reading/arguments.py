"""The search space in a script's own arguments: ``--lr 'loguniform(1e-4, 1)'``. Law: words in, a template and its
space out; of a word only calls of our distributions are evaluated, and in these only what the word itself says.
"""

from __future__ import annotations

import ast
import difflib
import keyword
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from workbench.errors import BadOption, BadSpace
from workbench.records import Argument
from workbench.snapshot.reading.hyperparameters import NAMES, supplied
from workbench.space import Distribution, Parameter, Space

__all__ = ["argument_words", "read_arguments", "split_arguments"]

#: What a word may call besides the distributions: an option that is given, without a value, or left out.
FLAG = "flag"
_CALL = re.compile(r"(?P<before>.*?=)?(?P<call>(?P<function>\w+)\(.*\))", re.DOTALL)
_BEGINS = re.compile(rf"([^(]*=)?({'|'.join((*NAMES, FLAG))})\(")
_OPTION = re.compile(r"-{1,2}[^\W\d].*", re.DOTALL)
_SHOWN = f"{', '.join(NAMES)} or {FLAG}"


def read_arguments(words: Sequence[str]) -> tuple[tuple[Argument, ...], Space]:
    """The template of a script's arguments, and the space of the distributions in it.

    A distribution is an option's value (``--lr 'loguniform(1e-4, 1)'``, ``--lr='…'``) or follows a key
    (``model.lr='…'``). Raises BadOption or BadSpace.
    """
    found: list[Argument] = []
    space: dict[str, Distribution] = {}
    for word in words:
        match = _CALL.fullmatch(word)
        if match is None and _BEGINS.match(word):
            raise BadOption(f"{word}: expected one distribution and nothing else, such as loguniform(1e-4, 1).")
        if match is None or not _is_ours(match["function"], word):
            found.append(Argument(word))
            continue
        before = match["before"]
        if before is None:
            if (
                not found
                or found[-1].name is not None
                or not _OPTION.fullmatch(found[-1].text)
                or "=" in found[-1].text
            ):
                raise BadOption(
                    f"{word} stands alone among the script's arguments. Expected it as the value of an option or of a "
                    f"key: write --name '{word}' or name='{word}'."
                )
            before = found.pop().text
        name = _name(before)
        if name in space:
            raise BadOption(
                f"the script's arguments give {name} two distributions, the second one as {match['call']}. Expected "
                "one for each hyperparameter; leave one out, or call them differently."
            )
        is_flag = match["function"] == FLAG
        if is_flag and before.endswith("="):
            raise BadOption(f"{word}: a flag has no value. Write {before[:-1]} '{FLAG}()'.")
        space[name] = _evaluated(match["call"], space)
        found.append(Argument(before, name, is_flag))
    return tuple(found), Space(space)


def argument_words(arguments: Sequence[Argument], configuration: Mapping[str, Any]) -> list[str]:
    """The words that a trial's script gets. A value that is None, or whose condition is false, leaves its argument out,
    so that the script's own default counts; a list gives one word for each item, or ``[a,b]`` after ``=``.
    """
    words: list[str] = []
    for one in arguments:
        if one.name is None:
            words.append(one.text)
            continue
        value = configuration[one.name]
        if value is None or (one.is_flag and not value):
            continue
        if one.is_flag:
            words.append(one.text)
        elif one.text.endswith("="):
            words.append(f"{one.text}{_text(value)}")
        else:
            words += [one.text, *(map(_text, value) if isinstance(value, list | tuple) else [_text(value)])]
    return words


def split_arguments(text: str) -> list[str]:
    """The words of ``text`` as a shell would split it, with calls kept whole although they have spaces, over several
    lines; ``#`` begins a comment. Raises BadOption for quotes or brackets without their partner.
    """
    words: list[str] = []
    word, quote, depth, has_begun = "", "", 0, False
    letters = iter(text)
    for letter in letters:
        if quote:
            if letter == quote:
                quote = ""
                word += letter if depth else ""
            else:
                word += letter
        elif letter in "'\"":
            quote, has_begun = letter, True
            word += letter if depth else ""
        elif letter == "\\" and not depth:
            follows = next(letters, "")
            word += "" if follows == "\n" else follows
            has_begun = has_begun or follows != "\n"
        elif letter == "#" and not has_begun:
            for one in letters:
                if one == "\n":
                    break
        elif letter.isspace() and not depth:
            if has_begun:
                words.append(word)
            word, has_begun = "", False
        else:
            depth += (letter in "([{") - (letter in ")]}" and depth > 0)
            word, has_begun = word + letter, True
    if quote or depth:
        raise BadOption(
            f"the script's arguments {text.strip()!r}: a {'quote' if quote else 'bracket'} is not closed. Close it."
        )
    return [*words, word] if has_begun else words


def _is_ours(function: str, word: str) -> bool:
    known = (*NAMES, FLAG)
    if function in known:
        return True
    near = difflib.get_close_matches(function.lower(), known, n=1, cutoff=0.75)
    if near:
        raise BadOption(
            f"{word}: {function} is not a distribution. Expected {_SHOWN}; is {near[0]}(…) meant? Text that only "
            "looks like a call goes into a configuration file, or a default of the script."
        )
    return False


def _name(before: str) -> str:
    """The hyperparameter's name for ``--weight-decay``, ``+model.lr=``."""
    name = re.sub(r"\W+", "_", before.removesuffix("=").lstrip("-+~")).strip("_")
    if name and name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if keyword.iskeyword(name) else name or "value"


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, float) and value < 0:
        # argparse takes -1e-05 for an option, and -0.00001 for a number.
        return format(Decimal(repr(value)), "f")
    return str(value)


# ---------------------------------------------------------------------------------------------------------------------
# One distribution


def _evaluated(text: str, space: Mapping[str, Distribution]) -> Distribution:
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise BadOption(f"{text}: {error.msg}. Expected a distribution, such as loguniform(1e-4, 1).") from None
    call = tree.body
    if not isinstance(call, ast.Call):
        raise BadOption(f"{text}: expected one distribution and nothing else, such as loguniform(1e-4, 1).")
    expression = ast.fix_missing_locations(ast.Expression(_Plain(text, space).visit(call)))
    known = {name: supplied()[name] for name in NAMES}
    names = {f"hyperparameter {name}": Parameter(name, one) for name, one in space.items()}
    try:
        code = compile(expression, "<arguments>", "eval")
        found = eval(code, {"__builtins__": {}, FLAG: _flag, **known, **names})  # noqa: S307 - only what _Plain passes
    except BadSpace as error:
        raise BadSpace(f"{text}: {error}") from None
    except Exception as error:
        raise BadOption(
            f"{text}: {str(error) or type(error).__name__}. Expected a distribution, such as loguniform(1e-4, 1) or "
            "choice(32, 64)."
        ) from None
    _check_options(text, found)
    return found  # type: ignore[no-any-return]


def _flag(*, when: Any = None) -> Distribution:
    return supplied()["choice"](False, True, when=when)  # type: ignore[no-any-return]


def _check_options(text: str, found: Distribution) -> None:
    for option in getattr(found, "options", ()):
        items = option if isinstance(option, list | tuple) else [option]
        for one in items:
            if isinstance(one, Distribution):
                _check_options(text, one)
            elif not (one is None or isinstance(one, bool | int | float | str)):
                raise BadOption(
                    f"{text}: {one!r} cannot be an argument of a script. Expected numbers, text, True, False, None or "
                    "lists of them."
                )


_PASSES = ast.Constant | ast.List | ast.Tuple | ast.UnaryOp | ast.unaryop | ast.BinOp | ast.operator | ast.Load


class _Plain(ast.NodeTransformer):
    """Lets pass what a word may say: constants, lists, arithmetic, distributions inside a choice, and conditions.

    A plain word is text, since quotes inside quotes are lost in shells: ``choice(adam, sgd)``. On the left side of a
    condition's comparison it is a hyperparameter: ``when=opt == sgd``.
    """

    def __init__(self, text: str, space: Mapping[str, Distribution]) -> None:
        self.text, self.space, self.is_condition = text, space, False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not isinstance(node.func, ast.Name) or node.func.id not in (*NAMES, FLAG):
            raise self.refused(node)
        node.args = [self.visit(one) for one in node.args]
        for one in node.keywords:
            self.is_condition = one.arg == "when"
            one.value = self.visit(one.value)
            self.is_condition = False
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if not self.is_condition:
            return ast.copy_location(ast.Constant(node.id), node)
        if node.id in self.space:
            return ast.copy_location(ast.Name(f"hyperparameter {node.id}", ast.Load()), node)
        near = difflib.get_close_matches(node.id, self.space, n=1)
        raise BadOption(
            f"{self.text}: its condition names {node.id}, but no argument before it has that name"
            f"{f' (is {near[0]} meant?)' if near else ''}. Write a value as text in quotes, and put the argument "
            "that it depends on first."
        )

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if self.is_condition or not re.fullmatch(r"[\w.]+", ast.unparse(node)):
            raise self.refused(node)
        return ast.copy_location(ast.Constant(ast.unparse(node)), node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if not self.is_condition:
            raise self.refused(node)
        node.left = self.visit(node.left)
        self.is_condition = False
        node.comparators = [self.visit(one) for one in node.comparators]
        self.is_condition = True
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        is_sum = isinstance(node, ast.BinOp) and not self.is_condition
        if is_sum and any(isinstance(one, ast.Name) for one in ast.walk(node)):
            raise self.refused(node)
        if not isinstance(node, _PASSES):
            raise self.refused(node)
        return super().generic_visit(node)

    def refused(self, node: ast.AST) -> BadOption:
        return BadOption(
            f"{self.text}: `{ast.unparse(node)}` is not plain. Expected numbers, text, lists of them or another "
            'distribution; put text with other characters into quotes, as in choice("adam-w", sgd).'
        )
