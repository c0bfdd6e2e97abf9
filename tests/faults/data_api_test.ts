import { assert } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { setTimeout as delay } from "node:timers/promises";
import { startEdgeFunction } from "../../local/edge_function.ts";
import { freePort } from "../../local/free_port.ts";
import { startTemporaryStack } from "../../local/temporary_stack.ts";
import { underLoad } from "./load.ts";

const stack = await startTemporaryStack();
afterAll(() => stack[Symbol.asyncDispose]());

type Answer = (request: Request) => Response | Promise<Response>;

/** Between the function and the Data API: passes everything on, until it is told otherwise. */
const port = freePort();
let answer: Answer = pass;
const serve = () =>
  Deno.serve({ hostname: "127.0.0.1", port, onListen: () => {} }, (request) => answer(request));
let dataApi = serve();
const faults: string[] = [];
const edgeFunction = await startEdgeFunction({
  apiUrl: `http://127.0.0.1:${port}`,
  secretKey: stack.secretKey,
  log: (line) => {
    if (line.includes('"error"')) faults.push(line);
  },
});
afterAll(async () => {
  await edgeFunction[Symbol.asyncDispose]();
  await dataApi.shutdown();
});
const target = { url: `http://127.0.0.1:${edgeFunction.port}/public-audit-log`, faults };

/** Answers otherwise while something is done. */
async function whileAnswering(other: Answer, run: () => Promise<void>): Promise<void> {
  answer = other;
  try {
    await run();
  } finally {
    answer = pass;
  }
}

function pass({ url, method, headers, body }: Request): Promise<Response> {
  const { pathname, search } = new URL(url);
  return fetch(`${stack.apiUrl}${pathname}${search}`, { method, headers, body });
}

/** Half of the true answer, of which the length says that it is half, and what `then` does after it. */
async function half(
  request: Request,
  then: (rest: ReadableStreamDefaultController<Uint8Array>) => void | Promise<void>,
): Promise<Response> {
  const text = await (await pass(request)).bytes();
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(text.subarray(0, text.length / 2)),
    pull: then,
  });
  return new Response(body, { headers: { "Content-Length": `${text.length}` } });
}

/** Resolves after longer than the function waits. */
function hang(): Promise<void> {
  return delay(6_000);
}

/** Answers that come whole, and are garbage: handler_test.ts. */
const FAULTS: { is: string; answer: Answer; causes: RegExp }[] = [
  {
    is: "hanging",
    answer: (request) => hang().then(() => pass(request)),
    causes: /TimeoutError/,
  },
  {
    is: "hanging in the middle of an answer",
    answer: (request) => half(request, hang),
    causes: /TimeoutError/,
  },
  {
    is: "cut off in the middle of an answer",
    answer: (request) => half(request, (rest) => rest.close()),
    causes: /error reading a body/,
  },
];

describe("the service mends itself, with only lawful answers, when the Data API is", () => {
  for (const { is, answer, causes } of FAULTS) {
    it(is, async () => {
      await underLoad(
        { stack, edgeFunction: target, causes },
        (load) => whileAnswering(answer, () => load.answers(16, 500)),
      );
    });
  }

  it("slow, and then no request fails", async () => {
    await underLoad({ stack, edgeFunction: target }, async (load) => {
      const began = performance.now();
      const slow = async (request: Request) => {
        const response = await pass(request);
        await delay(1_500);
        return response;
      };
      await whileAnswering(slow, () => load.answers(16));
      assert(performance.now() - began > 1_400, "answers were not slow");
    });
  });

  it("refusing connections", async () => {
    const causes = /Caused by: .*refused/;
    await underLoad({ stack, edgeFunction: target, causes }, async (load) => {
      await dataApi.shutdown();
      try {
        await load.answers(16, 500);
      } finally {
        dataApi = serve();
      }
    });
  });
});
