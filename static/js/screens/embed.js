// The video of the open entry. Loads with the first play button.
import { register } from "../actions.js";

// No request reaches the video's site before the user clicks (H07).
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
