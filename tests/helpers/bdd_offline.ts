// Stands in for @std/testing/bdd where JSR cannot be reached (dev/tasks/std.ts), with what these tests use of it. node:test
// is no stand-in: with it, a file that throws while it is loaded passes with the tests that it has defined by then.

type Run = () => unknown;

interface Suite {
  tests: { name: string; run: (step: Deno.TestContext) => Promise<void>; ignore: boolean }[];
  before: Run[];
  after: Run[];
  beforeEach: Run[];
  afterEach: Run[];
}

// As with node:test, which these tests were written with. @std/testing sets both.
const OPTIONS = { sanitizeOps: false, sanitizeResources: false };

let current: Suite | undefined;

export function describe(name: string, define: () => void): void {
  const outer = current;
  const suite: Suite = { tests: [], before: [], after: [], beforeEach: [], afterEach: [] };
  current = suite;
  define();
  current = outer;
  add(name, (context) => runSuite(suite, context));
}

export function it(name: string, run: Run): void {
  const suite = current;
  add(name, async () => {
    for (const hook of suite?.beforeEach ?? []) await hook();
    try {
      await run();
    } finally {
      for (const hook of suite?.afterEach ?? []) await hook();
    }
  });
}

it.skip = (name: string, _run: Run): void => add(name, () => Promise.resolve(), true);

export const beforeAll = (run: Run): void => hook("before", Deno.test.beforeAll, run);
export const afterAll = (run: Run): void => hook("after", Deno.test.afterAll, run);
export const beforeEach = (run: Run): void => hook("beforeEach", Deno.test.beforeEach, run);
export const afterEach = (run: Run): void => hook("afterEach", Deno.test.afterEach, run);

function hook(
  kind: Exclude<keyof Suite, "tests">,
  ofFile: (run: () => void | Promise<void>) => void,
  run: Run,
): void {
  if (current) current[kind].push(run);
  else ofFile(async () => void await run());
}

function add(name: string, run: (context: Deno.TestContext) => Promise<void>, ignore = false) {
  if (current) current.tests.push({ name, run, ignore });
  else Deno.test({ name, ignore, fn: run, ...OPTIONS });
}

async function runSuite(suite: Suite, context: Deno.TestContext): Promise<void> {
  try {
    for (const hook of suite.before) await hook();
    for (const { name, run, ignore } of suite.tests) {
      await context.step({ name, ignore, fn: run, ...OPTIONS });
    }
  } finally {
    for (const hook of suite.after) await hook();
  }
}
