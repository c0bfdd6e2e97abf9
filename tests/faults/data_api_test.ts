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
class FaultyDataApi {
  readonly port = freePort();
  answer: Answer = pass;
  #server = this.#serve();

  #serve() {
    const options = { hostname: "127.0.0.1", port: this.port, onListen: () => {} };
    return Deno.serve(options, (request) => this.answer(request));
  }

  async stop(): Promise<void> {
    await this.#server.shutdown();
  }

  start(): void {
    this.#server = this.#serve();
  }
}

const dataApi = new FaultyDataApi();
const faults: string[] = [];
const edgeFunction = await startEdgeFunction({
  apiUrl: `http://127.0.0.1:${dataApi.port}`,
  secretKey: stack.secretKey,
  log: (line) => {
    if (line.includes('"error"')) faults.push(line);
  },
});
afterAll(async () => {
  await edgeFunction[Symbol.asyncDispose]();
  await dataApi.stop();
});

function pass({ url, method, headers, body }: Request): Promise<Response> {
  const { pathname, search } = new URL(url);
  return fetch(`${stack.apiUrl}${pathname}${search}`, { method, headers, body });
}

/** Half of the true answer, and what `then` does after it. */
async function half(
  request: Request,
  then: (rest: ReadableStreamDefaultController<Uint8Array>) => void | Promise<void>,
  headers?: (length: number) => HeadersInit,
): Promise<Response> {
  const response = await pass(request);
  const text = new Uint8Array(await response.arrayBuffer());
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(text.subarray(0, text.length / 2)),
    pull: then,
  });
  return new Response(body, headers && { headers: headers(text.length) });
}

/** Resolves after longer than the function waits. */
function hang(): Promise<void> {
  return delay(6_000);
}

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
    answer: (request) =>
      half(request, (rest) => rest.close(), (length) => ({ "Content-Length": `${length}` })),
    causes: /error reading a body/,
  },
  {
    is: "truncating JSON",
    answer: (request) => half(request, (rest) => rest.close()),
    causes: /200, \d+ characters, no JSON$/,
  },
  {
    // Other garbage: handler_test.ts.
    is: "answering for somebody else",
    answer: () => new Response("<html><h1>Bad Gateway</h1></html>", { status: 502 }),
    causes: /502 .*Bad Gateway/,
  },
];

const target = { url: `http://127.0.0.1:${edgeFunction.port}/public-audit-log`, faults };

describe("the service mends itself, with only lawful answers, when the Data API is", () => {
  for (const { is, answer, causes } of FAULTS) {
    it(is, async () => {
      await underLoad({ stack, edgeFunction: target, causes }, async (load) => {
        dataApi.answer = answer;
        try {
          await load.answers(16, 500);
        } finally {
          dataApi.answer = pass;
        }
      });
    });
  }

  it("slow, and then no request fails", async () => {
    await underLoad({ stack, edgeFunction: target }, async (load) => {
      const began = performance.now();
      dataApi.answer = async (request) => {
        const response = await pass(request);
        await delay(1_500);
        return response;
      };
      try {
        await load.answers(16);
      } finally {
        dataApi.answer = pass;
      }
      assert(performance.now() - began > 1_400, "answers were not slow");
    });
  });

  it("refusing connections", async () => {
    await underLoad(
      { stack, edgeFunction: target, causes: /Caused by: .*refused/ },
      async (load) => {
        await dataApi.stop();
        try {
          await load.answers(16, 500);
        } finally {
          dataApi.start();
        }
      },
    );
  });
});
