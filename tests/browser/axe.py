"""What axe says of a page, with contrast asked once of each kind of text, and sizes where something is small.

Contrast is the greater part of all that axe does: it lays out the whole page once more to learn what lies
below each text. A page is looked at in two colour schemes and three widths, and most of its texts stand on
every other page as well. So each text is described by all that axe's answer depends on, and what it passed
once is not asked again, nor is what is plainly legible. All else goes to axe, which alone says what fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

AXE = Axe().axe_script
Options = dict[str, Any]
CONTRAST = "color-contrast"
LINKS = "link-in-text-block"
_SIZE = "target-size"
_SCROLL = "scrollable-region-focusable"
RULES: Options = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
#: What axe can find in a document by where its parts stand: all else it says by the document alone, and by
#: what of it is shown and in which colours.
PLACED: Options = {"runOnly": [_SIZE, _SCROLL]}


# To collect what passes costs more than to look for what does not. Ahead, axe may load only recordings: rules
# of a shadow root it copies into style elements, which the content security policy refuses.
_LOOK = """([options, exclude]) => axe
  .run({ exclude }, { ...options, preload: { assets: ["media"] }, resultTypes: ["violations"] })
  .then((found) => found.violations)"""

# Two words for each text that can be seen and for each field, and whether it is plainly legible. The first
# word stands for its colours: its own, size and weight, its opacity and that of all around it, and what lies
# below and above the middle of each of its lines, which is where axe looks too. The second one adds where it
# stands in the document, and what it says: what axe leaves out (what is disabled, a single character) or
# cannot tell is left out by that only. Plainly legible is an opaque colour on an opaque ground with a
# contrast of at least 4.5, which is enough for any size (WCAG 1.4.3). What is less simple (opacity, shadow,
# picture, overlay) is axe's to judge.
_TEXTS = r"""(exclude) => {
  const hash = (text) => {
    let a = 0xdeadbeef, b = 0x41c6ce57;
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      a = Math.imul(a ^ code, 2654435761);
      b = Math.imul(b ^ code, 1597334677);
    }
    a = Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909);
    b = Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(a ^ (a >>> 13), 3266489909);
    return (b >>> 0).toString(36) + "." + (a >>> 0).toString(36);
  };
  const kept = (make) => {
    const known = new Map();
    return (element) => {
      if (!element) return "";
      if (!known.has(element)) known.set(element, make(element));
      return known.get(element);
    };
  };
  const plain = "rgba(0, 0, 0, 0)|none|1|normal|none|none|border-box";
  const box = kept((element) => {
    const s = getComputedStyle(element);
    const own = [s.backgroundColor, s.backgroundImage, s.opacity, s.mixBlendMode, s.filter,
      s.backdropFilter, s.backgroundClip].join("|");
    return own === plain ? "" : own;
  });
  const around = kept((element) => {
    const own = box(element), outer = around(element.parentElement);
    return own ? hash(outer + own) : outer;
  });
  // 0.0005 more than WCAG asks for, as axe rounds.
  const isLegible = (ink, ground) => {
    const [dark, light] = [ink, ground].map((colour) => {
      const [r, g, b] = colour.match(/\d+/g).map((part) => part / 255)
        .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
    }).sort((one, other) => one - other);
    return light / dark >= 4.5005;
  };
  const opaque = /^rgb\(\d+, \d+, \d+\)$/;
  const pictures = "img, svg, svg *, canvas, video, object, embed, iframe, input";
  const solidGround = /^(rgb\(\d+, \d+, \d+\))\|none\|1\|normal\|none\|none\|border-box$/;
  const isFaded = kept((element) => {
    const s = getComputedStyle(element);
    return s.opacity !== "1" || s.mixBlendMode !== "normal" || s.filter !== "none"
      || isFaded(element.parentElement) === true;
  });
  const isPlainlyLegible = (element, stack) => {
    const s = getComputedStyle(element);
    if (!opaque.test(s.color) || s.webkitTextFillColor !== s.color || s.textShadow !== "none") return false;
    if (s.webkitTextStrokeWidth !== "0px" || isFaded(element)) return false;
    const at = stack.indexOf(element), below = stack.findIndex((each, number) => number >= at && box(each));
    if (at < 0 || below < 0 || stack.slice(0, at).some(box) || isFaded(stack[below])) return false;
    if (stack.slice(0, below + 1).some((each) => each !== element && each.matches(pictures))) return false;
    // The ground of body is drawn below all that lies below body.
    if (stack[below] === document.body && stack.slice(below + 1).some(box)) return false;
    const ground = solidGround.exec(box(stack[below]));
    return ground !== null && isLegible(s.color, ground[1]);
  };
  const place = kept((element) => {
    const attributes = [...element.attributes].map((each) => each.name + "=" + each.value);
    const inert = element.localName === "label" && element.control?.disabled;
    return hash([place(element.parentElement), element.localName, inert, ...attributes].join("\n"));
  });
  const ink = kept((element) => {
    const s = getComputedStyle(element);
    return [s.color, s.webkitTextFillColor, s.webkitTextStrokeColor, s.webkitTextStrokeWidth, s.fontSize,
      s.fontWeight, s.textShadow].join("|");
  });
  const cut = kept((element) => {
    const s = getComputedStyle(element);
    const own = [s.clip, s.clipPath, element.offsetWidth < 3].join();
    return own === "auto,none,false" ? cut(element.parentElement) : cut(element.parentElement) + own;
  });
  const inert = [...document.querySelectorAll("[aria-labelledby]:is(:disabled, [aria-disabled=true])")]
    .map((each) => each.getAttribute("aria-labelledby")).join();
  const lines = new Map();
  const add = (element, rects) => {
    if (element.closest(exclude) || !element.checkVisibility({ visibilityProperty: true })) return;
    const some = [...rects].filter((rect) => rect.width && rect.height);
    if (some.length) lines.set(element, [...(lines.get(element) ?? []), ...some]);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (walker.nextNode()) {
    if (!walker.currentNode.data.trim()) continue;
    range.selectNodeContents(walker.currentNode);
    add(walker.currentNode.parentElement, range.getClientRects());
  }
  const drawn = "[type=hidden], [type=range], [type=color], [type=checkbox], [type=radio], [type=image]";
  for (const field of document.querySelectorAll(`input:not(${drawn}), select, textarea`)) {
    add(field, field.getClientRects());
  }
  // What lets the pointer through may lie on a text all the same.
  const solid = new CSSStyleSheet();
  solid.replaceSync("* { pointer-events: auto !important; }");
  document.adoptedStyleSheets.push(solid);
  const found = [];
  for (const [element, rects] of lines) {
    let isLegibleThroughout = true;
    const stacks = new Set(rects.map((rect) => {
      const stack = document.elementsFromPoint(rect.x + rect.width / 2, rect.y + rect.height / 2);
      isLegibleThroughout &&= isPlainlyLegible(element, stack);
      // Of what is scrolled away, cut off or behind a dialogue this shows something else.
      if (!stack.includes(element)) return "?";
      return stack.map((each) => (each === element ? "*" : "") + box(each)).filter(Boolean).join("/");
    }));
    const colours = hash([ink(element), around(element), ...[...stacks].sort()].join("\n"));
    const said = hash([colours, place(element), cut(element), inert, element.textContent].join("\n"));
    found.push([stacks.has("?") ? said : colours, said, isLegibleThroughout]);
  }
  document.adoptedStyleSheets.splice(document.adoptedStyleSheets.indexOf(solid), 1);
  window.__texts = [...lines.keys()];
  return found;
}"""

_ASK = """([which, exclude]) => {
  const include = which.map((index) => window.__texts[index]);
  const numbers = new Map(window.__texts.map((element, index) => [element, index]));
  const options = {
    runOnly: ["color-contrast"], resultTypes: ["violations", "passes"], elementRef: true, preload: false
  };
  const of = (rules) => rules.flatMap((rule) => rule.nodes.map((node) => numbers.get(node.element)));
  return axe.run({ include, exclude }, options).then((found) => ({
    passed: of(found.passes),
    failed: of(found.violations),
    violations: found.violations.map((rule) => ({
      id: rule.id,
      nodes: rule.nodes.map(({ target, failureSummary }) => ({ target, failureSummary })),
    })),
  }));
}"""


# Whether axe must say if targets are large enough, for which it lays out the whole page too (WCAG 2.5.8). No
# target fails that lies on no other one and is 24 px wide and high. A smaller one fails if the circle around
# its middle, 24 px wide, meets another target or the circle of another small one.
_CLOSE = """(exclude) => {
  const targets = `a[href], area, button, input, select, textarea, summary, iframe, audio, video, object,
    embed, [contenteditable], [tabindex][role]:not([role=region])`;
  const boxes = [...document.querySelectorAll(targets)]
    .filter((element) => element.checkVisibility({ visibilityProperty: true }))
    .map((element) => {
      const box = element.getBoundingClientRect();
      const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
      return { element, box, x, y, isSmall: box.width < 24 || box.height < 24 };
    });
  const covers = ({ box }, left, top, right, bottom) =>
    box.left < right && box.right > left && box.top < bottom && box.bottom > top;
  // Half a pixel more, as axe rounds.
  const meets = (one, other) => covers(other, one.x - 12.5, one.y - 12.5, one.x + 12.5, one.y + 12.5)
    || (other.isSmall && Math.abs(one.x - other.x) < 24.5 && Math.abs(one.y - other.y) < 24.5);
  return boxes.some((one) => !one.element.closest(exclude) && boxes.some((other) => other !== one
    && (covers(other, one.box.left, one.box.top, one.box.right, one.box.bottom)
      || (one.isSmall && meets(one, other)))));
}"""


# Whether something scrolls that the keyboard may not reach: it takes no focus, and nothing in it does.
_SCROLLED = """(exclude) => {
  const takesFocus = (element) => element.tabIndex >= 0 && !element.disabled && !element.closest("[inert]")
    && element.checkVisibility({ visibilityProperty: true });
  const fields = "a[href], button, input:not([type=hidden]), select, textarea, [tabindex]";
  return [...document.querySelectorAll("*")].some((element) => {
    const { scrollWidth, clientWidth, scrollHeight, clientHeight } = element;
    if (scrollWidth <= clientWidth && scrollHeight <= clientHeight) return false;
    const { overflowX, overflowY } = getComputedStyle(element);
    if (!/auto|scroll/.test(overflowX + overflowY) || element.closest(exclude)) return false;
    if (element.matches(fields) && takesFocus(element)) return false;
    return ![...element.querySelectorAll(fields)].some(takesFocus);
  });
}"""


# Whether a link can stand in a text: axe takes it for inline, and the block around it holds more than links.
_IN_TEXT = """(exclude) => {
  const blocks = /^(block|list-item|table.*|flex|grid|inline-block)$/;
  const isBlock = (element) => blocks.test(getComputedStyle(element).display);
  const length = (element) => element.textContent.trim().length;
  return [...document.querySelectorAll("a[href], [role=link]")].some((link) => {
    if (link.closest(exclude) || isBlock(link)) return false;
    if (!link.checkVisibility({ visibilityProperty: true })) return false;
    let block = link.parentElement;
    while (block.parentElement && !isBlock(block)) block = block.parentElement;
    const links = [...block.querySelectorAll("a[href], [role=link]")];
    return length(block) > links.reduce((sum, each) => sum + length(each), 0);
  });
}"""


#: Rules that cost axe a look at the whole page, their tags, and what tells where they have nothing to find.
_BY_LOOK = ((_SIZE, "wcag22aa", _CLOSE), (_SCROLL, "wcag2a", _SCROLLED), (LINKS, "wcag2a", _IN_TEXT))


# The document, and what of it is shown: also what is cut off or lies outside counts as hidden in some rules.
_SHOWN = """() => {
  const flags = [...document.querySelectorAll("*")].map((element) => {
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    return [element.checkVisibility({ visibilityProperty: true, opacityProperty: true }), style.display,
      style.clip, style.clipPath, box.right <= 0 || box.bottom <= 0, !box.width || !box.height].join();
  });
  return document.documentElement.outerHTML + flags.join("|");
}"""


class Contrast:
    """What axe has found nothing to say of: descriptions of texts, of any page."""

    def __init__(self) -> None:
        self._passed: set[str] = set()
        self._left_out: set[str] = set()

    def faults(self, page: Page, exclude: Sequence[str] = ()) -> Iterator[str]:
        """Look at the texts that are not known."""
        texts: list[tuple[str, str, bool]] = page.evaluate(_TEXTS, _any(exclude))
        while new := {
            # One of each colours: the others are asked only if axe leaves that one out.
            colours: number
            for number, (colours, said, is_legible) in enumerate(texts)
            if not is_legible and not self._knows(colours, said)
        }:
            asked = list(new.values())
            _ready(page)
            found = page.evaluate(_ASK, [asked, list(exclude)])
            self._passed |= {texts[n][0] for n in found["passed"] if n is not None}
            self._left_out |= {texts[n][1] for n in set(asked) - set(found["passed"]) - set(found["failed"])}
            if found["violations"]:
                yield from _told(found["violations"])
                return

    def _knows(self, colours: str, said: str) -> bool:
        return colours in self._passed or said in self._left_out


def faults(page: Page, options: Options, exclude: Sequence[str] = ()) -> Iterator[str]:
    """Yield what axe finds."""
    for rule, tag, can_fail in _BY_LOOK:
        if {tag, rule} & set(options["runOnly"]) and not page.evaluate(can_fail, _any(exclude)):
            options = _without(options, rule)
    if options["runOnly"]:
        _ready(page)
        yield from _told(page.evaluate(_LOOK, [options, list(exclude)]))


def shown(page: Page) -> str:
    """Return the document and what of it is shown."""
    said: str = page.evaluate(_SHOWN)
    return said


def _without(options: Options, rule: str) -> Options:
    if rule in options["runOnly"]:
        return {**options, "runOnly": [each for each in options["runOnly"] if each != rule]}
    return {**options, "rules": {**options.get("rules", {}), rule: {"enabled": False}}}


def _any(selectors: Sequence[str]) -> str:
    return ", ".join(selectors) or ":not(*)"


def _ready(page: Page) -> None:
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)


def _told(violations: list[dict[str, Any]]) -> Iterator[str]:
    for violation in violations:
        nodes = [" ".join(n["target"]) + ": " + n["failureSummary"][:200] for n in violation["nodes"][:3]]
        yield f"{violation['id']} {nodes}"
