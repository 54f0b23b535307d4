// Buttons that copy, on pages without other scripts.
import { bindCopies } from "../copying.js";

bindCopies();
