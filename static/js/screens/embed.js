// A video of the open entry. Loaded with the first of its buttons.
import { register } from "../actions.js";

// A video asks its site for nothing before it is wanted (H07).
function embed() {
  const button = document.querySelector("#article [data-embed]");
  if (!button) return;
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts allow-same-origin allow-popups allow-presentation");
  frame.setAttribute("allow", "fullscreen; picture-in-picture");
  frame.setAttribute("referrerpolicy", "strict-origin");
  frame.title = button.dataset.title;
  frame.src = button.dataset.embed;
  button.closest(".embed").replaceChildren(frame);
  frame.focus();
}

register({ embed });
