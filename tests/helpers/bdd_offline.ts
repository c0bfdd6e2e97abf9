// Stands in for @std/testing/bdd where JSR cannot be reached (dev/tasks/std.ts), with what these tests use of it. node:test
// is no stand-in: with it, a file that throws while it is loaded passes with the tests that it has defined by then.

type Run = () => unknown;
type Hook = "beforeAll" | "afterAll" | "afterEach";

interface Suite extends Record<Hook, Run[]> {
  tests: { name: string; fn: (context: Deno.TestContext) => Promise<void>; ignore: boolean }[];
}

// As with node:test, which these tests were written with. @std/testing sets both.
const OPTIONS = { sanitizeOps: false, sanitizeResources: false };

let current: Suite | undefined;

export function describe(name: string, define: () => void): void {
  const outer = current;
  const suite: Suite = { tests: [], beforeAll: [], afterAll: [], afterEach: [] };
  current = suite;
  define();
  current = outer;
  add(name, async (context) => {
    try {
      for (const run of suite.beforeAll) await run();
      for (const test of suite.tests) await context.step({ ...test, ...OPTIONS });
    } finally {
      for (const run of suite.afterAll) await run();
    }
  });
}

export function it(name: string, test: Run): void {
  const suite = current;
  add(name, async () => {
    try {
      await test();
    } finally {
      for (const run of suite?.afterEach ?? []) await run();
    }
  });
}

it.skip = (name: string, _run: Run): void => add(name, () => Promise.resolve(), true);

function add(name: string, fn: (context: Deno.TestContext) => Promise<void>, ignore = false): void {
  if (current) current.tests.push({ name, fn, ignore });
  else Deno.test({ name, fn, ignore, ...OPTIONS });
}

export const beforeAll = hook("beforeAll");
export const afterAll = hook("afterAll");
export const afterEach = hook("afterEach");

function hook(kind: Hook) {
  return (run: Run): void => {
    if (current) current[kind].push(run);
    else Deno.test[kind](async () => void await run());
  };
}
