"""The language of code, links without text, and pictures without a description, in sanitized HTML."""

from __future__ import annotations

import pytest

from app.feeds.html.sanitize import sanitize

PAGE = "https://site.example/post"


def clean(markup: str) -> str:
    return sanitize(markup, PAGE)


@pytest.mark.parametrize(
    "published",
    [
        '<pre><code class="language-py">x</code></pre>',
        '<pre><code class="lang-python hljs">x</code></pre>',
        '<pre>\n<code class="hljs python">x</code></pre>',
        '<pre class="language-Python line-numbers">x</pre>',
        '<pre lang="python">x</pre>',
        '<pre class="brush: python; title: ; notranslate">x</pre>',
        '<pre class="src src-python">x</pre>',
        '<pre class="sourceCode python"><code>x</code></pre>',
        '<div class="language-python highlighter-rouge"><div class="highlight"><pre class="highlight"><code>x'
        "</code></pre></div></div>",
        '<div class="highlight highlight-source-python"><pre>x</pre></div>',
        '<div class="highlight-python3"><div class="highlight"><pre><span></span>x</pre></div></div>',
        '<figure class="highlight python"><table><tr><td><pre>x</pre></td></tr></table></figure>',
        '<PRE class="language-python">x</PRE> <pre class="language-python">x</pre>',
    ],
)
def test_the_language_of_code_is_found_wherever_a_site_names_it(published: str) -> None:
    found = clean(published)
    assert '<pre class="language-python">' in found
    assert found.count("class=") == found.count("<pre")
    assert "lang=" not in found
    assert clean(found) == found


@pytest.mark.parametrize(
    "published",
    [
        "<pre><code>x</code></pre>",
        '<pre class="language-klingon">x</pre>',
        '<pre class="highlight">python</pre>',
        '<pre class="python">x</pre>',
        '<pre lang="de">x</pre>',
        '<div class="language-python"><p>x</p></div><pre>y</pre>',
        '<p class="language-python">x</p><pre>y</pre>',
        '<code class="language-python">x</code><pre>y</pre>',
        '<pre class="language-&quot;onload=alert(1)">x</pre>',
    ],
)
def test_no_language_is_guessed(published: str) -> None:
    assert "class=" not in clean(published)


def test_H06_no_class_but_a_language_of_the_list_stays() -> None:
    published = (
        '<div class="language-python article menu"><p class="note">a</p>'
        '<pre class="language-python btn primary"><span class="k">b</span></pre>'
        '<figure class="look-box highlight"></figure><code class="aa">c</code></div>'
    )
    found = clean(published)
    assert found.count("class=") == 1
    assert '<pre class="language-python"><span>b</span></pre>' in found


def test_the_text_of_code_stays_as_it_was() -> None:
    text = "a &lt; b &amp;&amp; c\n\n\tif (x) { &quot;y&quot; }\n"
    found = clean(f'<pre class="language-c">{text}</pre>')
    assert found == f'<pre class="language-c">{text.replace("&quot;", chr(34))}</pre>'


@pytest.mark.parametrize(
    ("published", "stays"),
    [
        ('a<a href="/x"></a>b', "ab"),
        ('a <a href="/x"> </a>b', "a  b"),
        ('<a href="/x"><span><b></b></span>\n</a>b', "\nb"),
        ('<a href="/x"><img src="https://e.example/p.gif" width="1" height="1"></a>b', "b"),
        ('<a href="#t">t</a><a id="t" href="/x"></a>b', '<a href="#at-t">t</a><a id="at-t"></a>b'),
        ('<a href="#t">t</a><a name="t"></a>b', '<a href="#at-t">t</a><a id="at-t"></a>b'),
        ('<h2 id="t">T<a href="#t"></a></h2>', "<h2>T</h2>"),
    ],
)
def test_a_link_that_shows_nothing_is_dropped(published: str, stays: str) -> None:
    assert clean(published) == stays
    assert clean(clean(published)) == stays


@pytest.mark.parametrize(
    "inside", ["x", "<img src='https://e.example/a.png'>", "<br>", "&#8203;", "<code></code>"]
)
def test_a_link_that_shows_anything_stays(inside: str) -> None:
    assert "href=" in clean(f'<a href="/x">{inside}</a>')


def test_a_picture_without_a_description_has_an_empty_one() -> None:
    assert clean('<img src="https://e.example/a.png">').count(' alt=""') == 1
    assert clean('<img src="https://e.example/a.png" alt="A &quot;b&quot;">').endswith(
        ' alt="A &quot;b&quot;">'
    )
    assert clean('<img alt="" src="https://e.example/a.png">').count("alt=") == 1
