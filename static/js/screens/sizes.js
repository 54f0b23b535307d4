// Pictures that come from their sites, with a size that nobody knows: each has a box until it loads, and then its own
// size. The first line in sight stays where it is. Loaded only if there are any.
import { settle } from "../fit.js";

const BOXED = ".prose img[data-script]:not([width][height], .sized)";

const stated = (image, name) => Number(/^\d+$/.exec(image.getAttribute(name) ?? "")?.[0]);

// Returns the size on the page: as the text says, if it states one side, but never larger than the picture.
function measure(image) {
  const { naturalWidth: width, naturalHeight: height } = image;
  const scale = Math.min(1, stated(image, "width") / width || stated(image, "height") / height || 1);
  return [width, height].map((side) => Math.max(1, Math.round(side * scale)));
}

function size(image) {
  if (image.matches?.(BOXED)) settle(image, ...(image.naturalWidth ? measure(image) : []));
}

for (const kind of ["load", "error"]) document.addEventListener(kind, ({ target }) => size(target), true);
for (const image of document.images) if (image.complete) size(image);
