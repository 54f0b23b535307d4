// Checks for new entries and reports them. Loads on first use.
import { register } from "../actions.js";
import * as counts from "../counts.js";
import { pane } from "../list.js";
import { post } from "../net.js";
import { when } from "../panes.js";
import { say, toast } from "../toast.js";
import { t } from "../words.js";

// Milliseconds between looks, since no event reports that the last feed has answered.
const PAUSES = [700, 1300, 2000, 4000, 6000];

const news = () => document.querySelector("#newbar:not([hidden])")?.textContent ?? "";

async function watch(stream) {
  let told = "";
  for (const pause of PAUSES) {
    await new Promise((resolve) => setTimeout(resolve, pause));
    await counts.refresh();
    if (pane().dataset.stream !== stream) return;
    if (news() !== told) say((told = news()));
  }
  if (!told) say(t("Nothing new yet"));
}

async function refresh() {
  const button = document.querySelector('form[data-act="refresh"]');
  const { stream } = pane().dataset;
  button?.classList.add("busy");
  try {
    const { text, count } = await post("/refresh", { stream });
    say(text);
    if (count) await watch(stream);
  } catch (failure) {
    toast(failure.message);
  } finally {
    button?.classList.remove("busy");
  }
}

register({ refresh: when("stream", () => void refresh()) });
