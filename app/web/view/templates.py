"""Templates compiled per language: constant texts are translated when a template is compiled.

A page has hundreds of texts. Each lookup at rendering cost 10 µs and a piece of output of its own; a constant
becomes part of the markup around it.
"""

from __future__ import annotations

from flask.templating import Environment
from jinja2 import BytecodeCache, Template, nodes
from jinja2.bccache import Bucket
from jinja2.compiler import CodeGenerator, Frame
from jinja2.visitor import NodeTransformer

from app.runtime import translations

#: The functions of templates that return a text's translation.
NAMES = frozenset(("_", "gettext"))
#: The filter that isolates a value of a sentence.
ISOLATE = "isolated_value"


class LanguageTemplates:
    """Loads templates, each language from its own environment.

    Args:
        base: The environment that all of them extend; it must be complete.
    """

    def __init__(self, base: Environment) -> None:
        self._base = base
        self._environments: dict[str, Environment] = {}

    def load(self, name: str, language: str) -> Template:
        """Return a template whose constant texts are in this language."""
        return self._get_environment(language).get_template(name)

    def _get_environment(self, language: str) -> Environment:
        found = self._environments.get(language)
        if found is None:
            made = self._base.overlay()
            made.code_generator_class = TranslatingGenerator
            made.language = language  # type: ignore[attr-defined]  # read by the generator
            if self._base.bytecode_cache is not None:
                made.bytecode_cache = _LanguageBytecode(self._base.bytecode_cache, language)
            # Two threads that get here at once use the same environment.
            found = self._environments.setdefault(language, made)
        return found


class _LanguageBytecode(BytecodeCache):
    """A cache of compiled templates that keeps languages, and versions of their catalogs, apart."""

    def __init__(self, shared: BytecodeCache, language: str) -> None:
        self._shared = shared
        self._version = f"{language} {translations.compute_version(language)}"

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        return super().get_cache_key(f"{self._version} {name}", filename)

    def load_bytecode(self, bucket: Bucket) -> None:
        self._shared.load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._shared.dump_bytecode(bucket)


class TranslatingGenerator(CodeGenerator):
    """Compiles templates with their constant texts in the environment's language."""

    def visit_Template(self, node: nodes.Template, frame: Frame | None = None) -> None:
        """Translate the constants of a template, then compile it."""
        if not any(name.ctx != "load" and name.name in NAMES for name in node.find_all(nodes.Name)):
            _Translator(self.environment.language).visit(node)  # type: ignore[attr-defined]  # set above
        super().visit_Template(node, frame)


class _Translator(NodeTransformer):
    """Replaces calls with a constant text by its translation, filled in like Jinja's newstyle gettext."""

    def __init__(self, language: str) -> None:
        self._translate = translations.load_translations(language).ugettext

    def visit_Call(self, node: nodes.Call) -> nodes.Node:
        self.generic_visit(node)
        text = _get_constant_text(node)
        if text is None:
            return node
        form = nodes.MarkSafeIfAutoescape(nodes.Const(self._translate(text)))
        values = [nodes.Pair(nodes.Const(pair.key), _isolate(pair.value)) for pair in node.kwargs]
        return nodes.Mod(form, nodes.Dict(values), lineno=node.lineno)


def _isolate(value: nodes.Expr) -> nodes.Expr:
    """Return a value as it stands in a sentence; see :func:`app.web.view.i18n.isolate_name`."""
    return nodes.Filter(value, ISOLATE, [], [], None, None)


def _get_constant_text(call: nodes.Call) -> str | None:
    if not (isinstance(call.node, nodes.Name) and call.node.name in NAMES and len(call.args) == 1):
        return None
    if call.dyn_args is not None or call.dyn_kwargs is not None:
        return None
    text = call.args[0]
    return text.value if isinstance(text, nodes.Const) and isinstance(text.value, str) else None
