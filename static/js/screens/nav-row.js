// A row of links that is wider than a phone: the current one is in sight, and each end says whether there is
// more. The page itself stays where it is.
const row = document.querySelector(".admin-nav");
const here = row.querySelector("[aria-current]");

const middle = (element) => {
  const { left, width } = element.getBoundingClientRect();
  return left + width / 2;
};

if (here) row.scrollLeft += middle(here) - middle(row);

// From right to left, the position is negative.
const mark = () => {
  const before = Math.abs(row.scrollLeft);
  row.toggleAttribute("data-before", before > 1);
  row.toggleAttribute("data-after", row.scrollWidth - row.clientWidth - before > 1);
};

row.addEventListener("scroll", mark, { passive: true });
new ResizeObserver(mark).observe(row);
