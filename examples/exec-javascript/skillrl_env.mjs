// Speaks the environment protocol of skillrl (docs/env-protocol.md), version 1.
//
// Copy this file next to your program. Node.js 18 and its standard library are enough.
import { createInterface } from "node:readline";

const PROTOCOL = 1;

/** The agent failed its task: throw it in `rollout`, with the reason that the optimizer reads. */
export class Failed extends Error {}

/** An error for which another try does not help, such as an item that does not exist. */
export class Refused extends Error {}

/**
 * Answers requests until the engine is done.
 *
 * `rollout(request)` returns a result, or a promise of one: an object with the fields of the protocol, without `id`.
 * `parallel` rollouts run at once. `about` is what `hello` answers besides, such as `name`, `items` and
 * `initial_skill`.
 */
export function serve(rollout, { parallel = 1, ...about }) {
  // Whatever is logged is for people, and must not reach the engine.
  const print = process.stdout.write.bind(process.stdout);
  process.stdout.write = process.stderr.write.bind(process.stderr);
  const hello = ({ items }) => {
    const answer = { ...about, mode: "rollout", protocol: PROTOCOL, capabilities: { parallel } };
    if (!items) delete answer.items;
    return answer;
  };
  const methods = { hello, rollout };
  const answer = async (request) => {
    let said;
    try {
      said = { ...(await methods[request.method](request)) };
    } catch (error) {
      if (error instanceof Failed) {
        said = { hard: 0, reason: error.message || "the agent failed" };
      } else {
        console.error(error);
        said = { error: { message: String(error), retry: !(error instanceof Refused) } };
      }
    }
    print(JSON.stringify({ ...said, id: request.id }) + "\n");
  };
  createInterface({ input: process.stdin }).on("line", (line) => {
    const request = JSON.parse(line);
    // An answer that is no longer awaited is dropped by the engine.
    if (request.method !== "cancel" && request.method !== "close") answer(request);
  });
}
