// Stands in for @std/testing/bdd where JSR cannot be reached (tasks/std.ts).
export {
  after as afterAll,
  afterEach,
  before as beforeAll,
  beforeEach,
  describe,
  it,
} from "node:test";
