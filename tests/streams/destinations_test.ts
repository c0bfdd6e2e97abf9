// Needs nothing.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { createHash, createHmac } from "node:crypto";
import { gunzipSync } from "node:zlib";
import {
  type Answer,
  type Batch,
  type Kind,
  type Outgoing,
  sendAndJudge,
  type Settings,
  type Verdict,
} from "../../supabase/functions/audit-log-streams/destinations/destination.ts";
import {
  destinationOf,
  KINDS,
} from "../../supabase/functions/audit-log-streams/destinations/index.ts";
import { newSigningSecret } from "../../supabase/functions/audit-log-streams/destinations/webhook.ts";

const ID = "0192d3f4-0000-7000-8000-00000000000";
/** Entries whose numbers a parser would round, and whose names a careless program would obey. */
const LINES = [1, 2, 3].map((n) =>
  `{"id":"${ID}${n}","created_at":"2026-11-20T08:00:00.00${n}Z","action":"agent_added",` +
  `"user_email":"ada@analytical.example","agent_name":"<!channel> & <http://x|y>\\n*",` +
  `"data":{"n": 9007199254740993, "x": 1.10, "text": "\\"},{\\u2028"}}`
);
const SEAL =
  `{"format" : 1, "sequence" : 312, "day" : "2026-11-19", "entries" : 38, "added" : 0, ` +
  `"removed" : 0, "sha256" : "${"a".repeat(64)}", "sealed_at" : "2026-11-20T00:14:48.608Z", ` +
  `"previous" : "${"b".repeat(64)}", "seal" : "${"c".repeat(64)}"}`;
const BATCH: Batch = {
  what: "entries",
  lines: LINES,
  number: 2_000,
  name: "0123456789abcdef",
  shownId: "acme",
};
const SEALS: Batch = { ...BATCH, what: "seals", lines: [SEAL] };

const OLD = newSigningSecret();
const NEW = newSigningSecret();
const SECRETS: Record<string, string[]> = {
  webhook: [NEW, OLD],
  splunk: ["12345678-1234-1234-1234-123456789012"],
  datadog: ["d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0"],
  elasticsearch: ["aWQ6a2V5/a2V5+a2V5=="],
  s3: ["AKIAEXAMPLEEXAMPLE:secret/secret+secret", "unused"],
  otlp: ["Authorization: Bearer tokentoken\nX-Scope-OrgID: 1234567890"],
  slack: ["T0000000/B0000000/XXXXXXXXXXXXXXXX"],
};

function settingsOf(kind: string, more: Partial<Settings> = {}): Settings {
  return { kind, url: "https://x.example/path", ...more };
}

async function requestOf(kind: string, batch: Batch, more: Partial<Settings> = {}) {
  const request = await destinationOf(settingsOf(kind, more)).build(batch, SECRETS[kind] ?? []);
  const { body, headers, url } = request;
  const isPacked = headers["content-encoding"] === "gzip" || url.pathname.endsWith(".gz");
  return { ...request, text: (isPacked ? gunzipSync(body) : new TextDecoder().decode(body)) + "" };
}

/** What an answer to a batch means. */
function verdictOf(kind: string, status: number, body = "", headers = {}): Promise<Verdict> {
  const answer: Answer = { status, body, headers: new Headers(headers) };
  const send = () => Promise.resolve(answer);
  return sendAndJudge(destinationOf(settingsOf(kind)), BATCH, SECRETS[kind] ?? [], send);
}

describe("a destination", () => {
  for (const [kind, { look, search }] of Object.entries<Kind>(KINDS)) {
    it(`${kind} shows a test where the console says`, async () => {
      const lines = [LINES[0]!.replace("agent_added", "audit_log_test")];
      const { text, url } = await requestOf(kind, { ...BATCH, what: "test", lines });
      if (kind === "s3") return assertMatch(url.pathname, /[/]test[/][^/]+$/);
      const words = search?.match(/audit_log\w*/g) ?? look.match(/(?<=“).*(?=”)/g) ?? [];
      assert(words.length > 0);
      for (const word of words) assert(new RegExp(`\\b${word}(?!\\w)`).test(text), word);
    });
  }

  for (const kind of Object.keys(KINDS).filter((kind) => kind !== "slack")) {
    it(`${kind} gets each entry and each seal with the bytes of the API`, async () => {
      for (const batch of [BATCH, SEALS]) {
        let { text } = await requestOf(kind, batch);
        if (kind === "otlp") {
          const { scopeLogs: [{ logRecords }] } = JSON.parse(text).resourceLogs[0];
          text = logRecords.map(({ body }: { body: { stringValue: string } }) => body.stringValue)
            .join("\n");
        }
        if (kind === "datadog") {
          text = JSON.parse(text).map(({ message }: { message: string }) => message).join("\n");
        }
        for (const line of batch.lines) assert(text.includes(line.slice(1)), text);
      }
    });
  }

  for (const kind of Object.keys(KINDS)) {
    it(`${kind} never says a secret, however its answer repeats what it got`, async () => {
      const secrets = SECRETS[kind] ?? [];
      const forms: ((request: Outgoing) => string)[] = [
        () => secrets.join("\n"),
        () => JSON.stringify(secrets),
        ({ url }) => `Cannot POST ${url.pathname}`,
        ({ url }) => url.pathname.replaceAll("/", "\\/"),
        ({ headers }) => headers["authorization"] ?? JSON.stringify(headers),
      ];
      for (const form of forms) {
        for (const status of [200, 400, 401, 410, 500]) {
          const send = (request: Outgoing) =>
            Promise.resolve({ status, body: form(request), headers: new Headers() });
          const destination = destinationOf(settingsOf(kind));
          const said = JSON.stringify(await sendAndJudge(destination, BATCH, secrets, send));
          for (const part of secrets.flatMap((secret) => secret.split(/[\s:/\\+]+/))) {
            assert(part.length < 8 || !said.includes(part), said);
          }
        }
      }
    });

    it(`${kind} loses nothing: only a success that is its own confirms`, async () => {
      const decisions = async (...statuses: number[]) =>
        await Promise.all(
          statuses.map(async (status) => (await verdictOf(kind, status, "<html>")).decision),
        );
      const later = await decisions(408, 425, 429, 500, 503, 301, 307, 401, 403, 404, 405);
      assertEquals(later, Array(11).fill("wait"));
      assertEquals(await decisions(400, 413, 422, 410), [...Array(3).fill("rejected"), "gone"]);
      // Of a webhook, each success is a confirmation.
      assertEquals(await decisions(200), [kind === "webhook" ? "delivered" : "wait"]);
    });
  }

  it("that answers a success as its API does has the batch", async () => {
    const stored = { ETag: '"d41d8cd98f00b204e9800998ecf8427e"' };
    const successes: [kind: string, status: number, body: string, headers?: object][] = [
      ["splunk", 200, '{"text":"Success","code":0}'],
      ["elasticsearch", 200, '{"errors":false}'],
      ["slack", 200, "ok"],
      ["datadog", 202, "{}"],
      ["datadog", 200, ""], // Vector, in Datadog's place
      ["otlp", 200, '{"partialSuccess":{"rejectedLogRecords":0}}\n'],
      ["otlp", 204, ""], // Grafana Cloud
      ["s3", 200, "", stored],
    ];
    for (const [kind, status, body, headers] of successes) {
      assertEquals((await verdictOf(kind, status, body, headers)).decision, "delivered", kind);
    }
    assertEquals((await verdictOf("s3", 200)).decision, "wait");
    assertEquals((await verdictOf("s3", 200, "<html>", stored)).decision, "wait");
  });

  it("says what it saw in 200 characters, none of which hides or turns text, and waits as it is asked", async () => {
    const body = `a\u0000\u202eb\n${"x".repeat(5_000_000)}`;
    const verdict = await verdictOf("webhook", 503, body, { "Retry-After": "7" });
    assertEquals(verdict, {
      decision: "wait",
      error: `status 503: a\\u0000\\u202eb ${"x".repeat(185)}`,
      waitS: 7,
    });
    for (const [value, waitS] of [["0", 1], ["99999999", 3600], ["tomorrow", undefined]] as const) {
      const verdict = await verdictOf("webhook", 429, "", { "Retry-After": value });
      assertEquals("waitS" in verdict ? verdict.waitS : undefined, waitS);
    }
  });

  it("says no half of a character, which Postgres would not take", async () => {
    for (let length = 190; length < 197; length++) {
      const verdict = await verdictOf("webhook", 503, `\u0001${"x".repeat(length)}😀`);
      assert("error" in verdict && verdict.error?.isWellFormed(), `${length}`);
    }
  });

  it("is not asked with a secret of very many words, each of which would be searched for", async () => {
    const secret = Array.from({ length: 101 }, (_, n) => `x-${n}: ${"k".repeat(8)}${n}`).join("\n");
    const verdict = await sendAndJudge(destinationOf(settingsOf("otlp")), BATCH, [secret], () => {
      throw new Error("it was asked");
    });
    assertEquals(verdict.decision, "wait");
  });

  it("is not asked with a secret that would be two headers, and its error does not quote the secret", async () => {
    for (const kind of ["splunk", "datadog", "elasticsearch"]) {
      const sent = () => Promise.reject(new Error("was sent"));
      const destination = destinationOf(settingsOf(kind));
      const verdict = await sendAndJudge(destination, BATCH, ["x y\r\nhost: z"], sent);
      const error = "the secret must be one line of ASCII characters";
      assertEquals(verdict, { decision: "wait", error });
    }
  });

  it("says no part of a secret or a signature, whatever makes its request impossible", async () => {
    const session = "SESSION\nSESSION";
    const impossible: [kind: string, secret: string, more?: Partial<Settings>][] = [
      ["s3", `AKIAEXAMPLE:secretsecret:${session}`],
      ["s3", `${session}:secretsecret`],
      ["s3", "AKIAEXAMPLE:secretsecret", { region: "eu\r\nSESSION: x" }],
      ["webhook", `whsec_${session}!`],
      ["otlp", "Authorization: SESSION\u0000"],
    ];
    for (const [kind, secret, more] of impossible) {
      const sent = () => Promise.reject(new Error("was sent"));
      const destination = destinationOf(settingsOf(kind, more));
      const verdict = await sendAndJudge(destination, BATCH, [secret], sent);
      const said = JSON.stringify(verdict);
      assertEquals(verdict.decision, "wait", kind);
      assert(!/SESSION|AKIA|Signature/.test(said), said);
    }
  });
});

describe("a webhook", () => {
  it("is signed with both secrets during a rotation, and a repeat has the same id", async () => {
    const { headers, text } = await requestOf("webhook", BATCH);
    const id = headers["webhook-id"];
    const signed = `${id}.${headers["webhook-timestamp"]}.${text}`;
    const signatures = [NEW, OLD].map((secret) => {
      const key = atob(secret.replace("whsec_", ""));
      return `v1,${
        createHmac("sha256", key, { encoding: "latin1" }).update(signed).digest("base64")
      }`;
    });
    assertEquals(headers["webhook-signature"], signatures.join(" "));
    assertEquals((await requestOf("webhook", BATCH)).headers["webhook-id"], id);
    const more = await requestOf("webhook", { ...BATCH, lines: LINES.slice(1) });
    assert(more.headers["webhook-id"] !== id);
  });

  it("says whether its lines are entries, seals or a test, and is an array if that is wanted", async () => {
    const { headers, text } = await requestOf("webhook", SEALS);
    assertEquals([headers["audit-log-content"], text], ["seals", `${SEAL}\n`]);
    const array = await requestOf("webhook", BATCH, { body: "array" });
    assertEquals(array.headers["content-type"], "application/json");
    assertEquals(JSON.parse(array.text).length, 3);
  });
});

it("Splunk gets times as seconds, and says when the token is at fault", async () => {
  const { headers, text, url } = await requestOf("splunk", BATCH);
  assertEquals(headers["authorization"], `Splunk ${SECRETS["splunk"]?.[0]}`);
  assertEquals(url.href, "https://x.example/path/services/collector/event");
  assertEquals(text.split("\n").map((line) => JSON.parse(line).time)[1], 1795161600.002);
  const index = await verdictOf("splunk", 400, '{"text":"Incorrect index","code":7}');
  assertEquals(index.decision, "wait");
  assertEquals((await verdictOf("splunk", 400, '{"code":6}')).decision, "rejected");
});

describe("Elasticsearch", () => {
  const bulk = (...statuses: number[]) => {
    const items = statuses.map((status) => ({ create: { status, error: { type: "why" } } }));
    return verdictOf("elasticsearch", 200, JSON.stringify({ errors: true, items }));
  };

  it("takes a repeat as delivered, rejects single entries by 400, and makes all wait for the rest", async () => {
    assertEquals(await bulk(201, 409, 201), { decision: "delivered", rejected: [] });
    const rejected = [{ n: 1, reason: '{"type":"why"}' }];
    assertEquals(await bulk(201, 400, 201), { decision: "delivered", rejected });
    assertEquals((await bulk(201, 400, 429)).decision, "wait");
    assertEquals((await bulk(201, 403, 201)).decision, "wait");
    assertEquals((await bulk(201)).decision, "wait");
    const error = { type: "index_closed_exception" };
    const items = [{ create: { status: 201 } }, { create: { status: 400, error } }, {}];
    const closed = await verdictOf("elasticsearch", 200, JSON.stringify({ errors: true, items }));
    assertEquals(closed.decision, "wait", "no entry is at fault");
  });

  it("has an id for each entry and each seal, other ones for another organization, and a chain made anew", async () => {
    const idsOf = async (batch: Batch) =>
      (await requestOf("elasticsearch", batch)).text.split("\n").filter((_, n) => n % 2 === 0)
        .filter(Boolean).map((line) => JSON.parse(line).create._id);
    const [id] = await idsOf(BATCH);
    assertMatch(id, new RegExp(`^[0-9a-f]{16}/${ID}1/2026-11-20T08:00:00.001Z$`));
    assertEquals((await idsOf(BATCH))[0], id);
    // Otherwise, the second one's entry would be taken for a repeat, and be lost.
    assert((await idsOf({ ...BATCH, shownId: "acme2" }))[0] !== id);
    const [seal] = await idsOf(SEALS);
    const anew = SEAL.replaceAll("cc", "dd");
    assertMatch(seal, /^[0-9a-f]{16}\/seal\/312\/c+\//);
    assert((await idsOf({ ...SEALS, lines: [anew] }))[0] !== seal);
  });
});

it("OTLP has the action, the id and the time of each entry, and tries less if some were rejected", async () => {
  const { headers, text } = await requestOf("otlp", BATCH);
  assertEquals(headers["x-scope-orgid"], "1234567890");
  const [record] = JSON.parse(text).resourceLogs[0].scopeLogs[0].logRecords;
  assertEquals(record.timeUnixNano, "1795161600001000000");
  assertEquals(record.eventName, "agent_added");
  assertEquals(record.attributes[1].value.stringValue, `${ID}1`);
  const partial = '{"partialSuccess":{"rejectedLogRecords":"2","errorMessage":"too old"}}';
  assertEquals((await verdictOf("otlp", 200, partial)).decision, "rejected");
});

describe("a bucket", () => {
  it("says what S3 rejects, and signs a folder with a plus and a space", async () => {
    const rejected = await verdictOf("s3", 403, "<Code>SignatureDoesNotMatch</Code>");
    assert("error" in rejected && rejected.error.includes("SignatureDoesNotMatch"));
    const { url } = await requestOf("s3", BATCH, { url: "https://x.example/bucket/a+b c" });
    assert(url.pathname.startsWith("/bucket/a%2Bb%20c/"), url.pathname);
  });

  it("gets the sum that Object Lock demands of what arrives", async () => {
    const { headers, body } = await requestOf("s3", BATCH);
    assertEquals(headers["content-md5"], createHash("md5").update(body).digest("base64"));
  });

  it("gets objects whose names sort by number, the same for a repeat, and seals in a folder of their own", async () => {
    const nameOf = async (batch: Batch) => (await requestOf("s3", batch)).url.pathname;
    const names = await Promise.all(
      [9, 1_000_000, 2_000].map((number) => nameOf({ ...BATCH, number })),
    );
    assertEquals(names.toSorted(), [names[0], names[2], names[1]]);
    assertEquals(await nameOf({ ...BATCH, lines: LINES.slice(1), number: 9 }), names[0]);
    assertEquals(await nameOf(SEALS), "/path/seals/000000002000-0123456789abcdef.ndjson.gz");
  });
});

it("Datadog gets the time of each entry in the attribute that it reads, as its agent writes it, and a tag of the organization", async () => {
  const { text, url } = await requestOf("datadog", BATCH);
  assertEquals(url.pathname, "/path/api/v2/logs");
  // The whole address is as good, and so is one with a query.
  const whole = await requestOf("datadog", BATCH, { url: `${url.href}?ddtags=env:test` });
  assertEquals(whole.url.href, `${url.href}?ddtags=env:test`);
  const [log] = JSON.parse(text);
  assertEquals([log.timestamp, log.ddtags], [1795161600001, "organization:acme"]);
});

it("Slack gets a sentence an entry, in which no name is a mention, a link or a line of its own", async () => {
  const { text, url } = await requestOf("slack", BATCH);
  assertEquals(url.pathname, `/path/${SECRETS["slack"]?.[0]}`);
  const sentences = JSON.parse(text).text.split("\n");
  assertEquals(sentences.length, 3);
  assertEquals(
    sentences[0],
    "2026-11-20 08:00:00 UTC: agent_added by ada@analytical.example, " +
      "agent “&lt;!channel&gt; &amp; &lt;http://x|y&gt; *”",
  );
  assertMatch(JSON.parse((await requestOf("slack", SEALS)).text).text, /To keep: 312:c{64}$/);
});
