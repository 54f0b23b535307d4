// A row of links that is wider than a phone: the current one is in sight. The page itself stays where it is.
const row = document.querySelector(".admin-nav");
const here = row.querySelector("[aria-current]");

const middle = (element) => {
  const { left, width } = element.getBoundingClientRect();
  return left + width / 2;
};

if (here) row.scrollLeft += middle(here) - middle(row);
