// Sends a change again while the server moves the account: it refuses the whole change until then.
import { post } from "./net.js";
import { toast } from "./toast.js";

const ATTEMPTS = 5;

export async function postAgain(url, fields) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await post(url, fields);
    } catch (failure) {
      if (failure.word !== "moving" || attempt === ATTEMPTS) throw failure;
      toast(failure.message);
      await new Promise((done) => setTimeout(done, failure.seconds * 1000));
    }
  }
}
