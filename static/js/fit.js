// The place of a picture in a text, by its size. As in app/web/view/pictures.py: wide pictures stand alone, low ones in a
// line, small square ones are signs.
const [BLOCK, LINE, SIGN] = [220, 64, 32];
// The part of a box that may stay empty below its picture, so that the text doesn't move.
const SPARE = 0.4;

function fit(image, width, height) {
  image.setAttribute("width", width);
  image.setAttribute("height", height);
  image.classList.toggle("block", width >= BLOCK);
  image.classList.toggle("narrow", width < BLOCK && height > LINE);
  image.classList.toggle("sign", width === height && width <= SIGN);
}

// Gives a box the size of its picture; without one, the box goes. The text that someone reads stays where it is.
export function settle(image, width, height) {
  const pane = image.closest(".pane") ?? document.scrollingElement;
  const block = image.closest(".prose > *") ?? image;
  const before = block.getBoundingClientRect();
  if (width) fit(image, width, height);
  else image.classList.add("sized");
  const after = block.getBoundingClientRect();
  const edge = Math.max(0, pane.getBoundingClientRect().top) + (pane.querySelector(".bar")?.offsetHeight ?? 0);
  const rest = before.height - after.height;
  // Below a picture that has been scrolled past, someone is reading.
  if (before.top < edge && before.bottom < innerHeight) pane.scrollTop += after.bottom - before.bottom;
  else if (before.top < innerHeight && rest > 0 && rest <= before.height * SPARE) {
    block.style[block === image ? "marginBlockEnd" : "minBlockSize"] = `${block === image ? rest + Number.parseFloat(getComputedStyle(image).marginBlockEnd) : before.height}px`;
  }
}
