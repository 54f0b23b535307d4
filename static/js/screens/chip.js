// The import progress on every page. Loads when an import runs.
import { register } from "../actions.js";
import { job } from "../counts.js";
import { t } from "../words.js";

function chip() {
  const { id, state, done, goal } = job;
  const link = document.getElementById("import-chip");
  if (Number(link?.dataset.id) !== id) return;
  if (state === "queued" || state === "running") link.lastChild.textContent = t("Importing {done} of {goal}", { done, goal });
  else link.remove();
}

register({ chip });
