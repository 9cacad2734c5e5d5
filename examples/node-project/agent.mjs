// An agent as a script: it gets the prompt on stdin and edits files in the work tree.
// A model would read the prompt and think. This one knows two edits and makes the first one that the prompt asks for.
import { readFileSync, writeFileSync } from "node:fs";

const edits = {
  "counts every piece": ["sum + line.price", "sum + line.price * line.count"],
  "shows two digits of cents": ["${cents % 100}", '${String(cents % 100).padStart(2, "0")}'],
};

const prompt = readFileSync(0, "utf8");
let code = readFileSync("prices.js", "utf8");
for (const [test, [wrong, right]] of Object.entries(edits)) {
  if (prompt.includes(test) && !code.includes(right)) {
    code = code.replace(wrong, () => right);
    console.log(`I changed prices.js for "${test}".`);
    break; // one thing at a time, so that there is something left for the second iteration
  }
}
writeFileSync("prices.js", code);
