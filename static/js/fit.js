// The place of a picture in a text, by its size. As in app/web/view/pictures.py: wide pictures stand alone, low ones in a
// line, small square ones are signs.
const [BLOCK, LINE, SIGN] = [220, 64, 32];

export function fit(image, width, height) {
  image.setAttribute("width", width);
  image.setAttribute("height", height);
  image.classList.toggle("block", width >= BLOCK);
  image.classList.toggle("narrow", width < BLOCK && height > LINE);
  image.classList.toggle("sign", width === height && width <= SIGN);
}
