"""Formulas: MathML passes by an allow-list, and is text where only text is shown."""

from __future__ import annotations

import re

import pytest

from app.feeds.html import element_tree, formulas, text
from app.feeds.html.sanitize import sanitize as clean

BASE = "https://site.example/p"


@pytest.mark.parametrize(
    ("inside", "shown", "said"),
    [
        ("<msup><mi>e</mi><mrow><mi>k</mi><mi>t</mi></mrow></msup>", None, "e^(k t)"),
        ("<mfrac><mn>1</mn><mn>2</mn></mfrac>", None, "1/2"),
        ("<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mi>c</mi></mfrac>", None, "(a + b)/c"),
        ("<msqrt><mi>x</mi></msqrt>", None, "√x"),
        ("<mroot><mi>x</mi><mn>3</mn></mroot>", None, "√[3]x"),
        ("<munderover><mo>∑</mo><mi>i</mi><mi>n</mi></munderover>", None, "∑_i^n"),
        ("<mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>2</mn></mtd></mtr><mtr><mtd><mn>3</mn></mtd></mtr></mtable>",
         None, "[1, 2; 3]"),
        ("<mi>a</mi><mo>&lt;</mo><mi>b</mi>", None, "a < b"),
        # Prefixes, unknown elements, and text between the elements.
        ("<m:mrow><m:mi>x</m:mi></m:mrow>", "<mrow><mi>x</mi></mrow>", "x"),
        ("<foo><mi>x</mi></foo> + y", "<mi>x</mi><mtext>+ y</mtext>", "x + y"),
        # TeX is what people write, so it is the text of the formula.
        ("<semantics><mi>x</mi><annotation encoding='application/x-tex'>\\pi r^2</annotation>"
         "<annotation-xml encoding='text/html'><b>y</b></annotation-xml></semantics>",
         "<mrow><mi>x</mi></mrow>", "\\pi r^2"),
        # What browsers would draw without its meaning.
        ("<mfenced open='[' separators=';'><mi>a</mi><mi>b</mi></mfenced>",
         "<mrow><mo>[</mo><mi>a</mi><mo>;</mo><mi>b</mi><mo>)</mo></mrow>", "[ a ; b )"),
        ("<mi mathvariant='double-struck'>R</mi><mi mathvariant=fraktur>Hg</mi>", "<mi>ℝ</mi><mi>ℌ𝔤</mi>",
         "ℝ ℌ𝔤"),
        ("<maction><mi>a</mi><mi>b</mi></maction>", "<mrow><mi>a</mi></mrow>", "a"),
    ],
)  # fmt: skip
def test_a_formula_keeps_its_structure(inside: str, shown: str | None, said: str) -> None:
    result = clean(f"<p>a <math display='block'>{inside}</math> b</p>", BASE)
    found = re.fullmatch(r'<p>a <math display="block" alttext="([^"]*)">(.*)</math> b</p>', result)
    assert found
    assert found[2] == (inside if shown is None else shown)
    assert clean(result, BASE) == result
    assert text.make_excerpt(result, 300) == f"a {said} b"
    assert text.flatten_html(result) == f"a {said} b"


@pytest.mark.parametrize(
    "inside",
    [
        "<mi href='javascript:alert(1)' onclick=x style=y class=z id=w xlink:href=v>x</mi>",
        "<mtext><img src=x onerror=alert(1)><style><a title='</style><img src=x>'></mtext><mi>x</mi>",
        "<mglyph><svg><desc><iframe></mglyph><mi>x</mi>",
        "<annotation-xml encoding='text/html'><script>alert(1)</script></annotation-xml><mi>x</mi>",
        "<mi>x<!-- </math> --></mi>",
        "<mi>&lt;img src=x onerror=alert(1)&gt;</mi>",
        "<![CDATA[<img src=x onerror=alert(1)>]]><mi>x</mi>",
        "<mspace width='url(x)'/><mo form='&quot;&gt;&lt;img&gt;'>+</mo>",
        "<mi mathvariant='\"><img src=x>'>x</mi>",
    ],
)
def test_H01_a_formula_contains_nothing_but_MathML(inside: str) -> None:
    result = clean(f"<math alttext='\"><img src=x onerror=alert(1)>'>{inside}</math>", BASE)
    tags = re.findall(r"<(/?)([a-z]+)((?: [a-z]+=\"[^\"<>]*\")*)>", result)
    assert "".join(f"<{a}{b}{c}>" for a, b, c in tags) == "".join(re.findall(r"<[^>]*>?", result))
    assert {name for _, name, _ in tags} <= formulas.ELEMENTS | {"code"}
    assert not re.search(r" (?:on\w+|href|style|class|id)=", "".join(given for _, _, given in tags))
    assert clean(result, BASE) == result


def test_H01_placeholders_of_formulas_cannot_be_forged() -> None:
    name = formulas.PLACEHOLDER
    forged = "".join(f"<{name} n={n}></{name}>" for n in ("0", "1", "2", "-1", "99999", "x"))
    result = clean(
        f"<p>{forged}<math><mi>x</mi></math>{forged}<i title='<math><mi>y</mi></math>'>z</i></p>", BASE
    )
    assert result.count("<math") <= 2
    assert result.count("<mi>x</mi>") == 1
    assert name not in re.sub("&lt;.*?&gt;", "", result)
    assert clean(f"<{name} n=0>a</{name}>", BASE) == "a"
    assert not re.search(r'="[^"]*<', result)


def test_H01_text_that_HTML_would_take_out_of_a_formula_stays_text() -> None:
    result = clean("<math><mi>x</mi><p>The article</p><math><mi>y</mi></math>", BASE)
    assert "The article" in result
    assert "<math" not in result


@pytest.mark.parametrize(
    "unit", ["<math>", "<math><mi>", "<math><mi>x</mi></math>", "<mfrac><mn>1</mn>", "<![CDATA["]
)
def test_X08_formulas_take_linear_time(unit: str) -> None:
    markup = unit * ((1 << 19) // len(unit))
    for whole in (markup, f"<math>{markup}</math>"):
        result = clean(whole, BASE)
        assert result.count("<math") <= formulas.MAX_FORMULAS
        assert len(result) < 8 * len(whole)


def test_X02_a_formula_too_deep_is_text() -> None:
    deep = "<mrow>" * (element_tree.MAX_DEPTH + 1) + "<mi>x</mi>" + "</mrow>" * (element_tree.MAX_DEPTH + 1)
    assert clean(f"<math>{deep}</math>", BASE) == "<code>x</code>"


def test_an_excerpt_cut_inside_a_formula_ends_before_it_or_says_it() -> None:
    body = (
        "<p>"
        + "word " * 55
        + "<math alttext='1/2'><mfrac><mn>1</mn><mn>2</mn></mfrac></math> end " * 20
        + "</p>"
    )
    excerpt = text.make_excerpt(clean(body, BASE), 300)
    assert "1/2 end" in excerpt
    assert "1 2" not in excerpt
