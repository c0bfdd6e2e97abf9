// Needs nothing.

import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { Buffer } from "node:buffer";
import { createHash, createHmac } from "node:crypto";
import { gunzipSync } from "node:zlib";
import {
  type Batch,
  type Kind,
  type Outgoing,
  sendAndJudge,
  type Settings,
  type Verdict,
} from "../../supabase/functions/audit-log-streams/destinations/destination.ts";
import {
  destinationOf,
  kindOf,
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
  platform_id: "acme",
};
const SEALS: Batch = { ...BATCH, what: "seals", lines: [SEAL] };

const OLD = newSigningSecret();
const NEW = newSigningSecret();
/** Secrets of another form than some words, as many as the kind asks for. */
const SECRETS: Record<string, string[]> = {
  webhook: [NEW, OLD],
  otlp: ["Authorization: Bearer tokentoken\nX-Scope-OrgID: 1234567890"],
};

function secretsOf(kind: string): string[] {
  const { secrets } = kindOf(kind)!;
  return SECRETS[kind] ?? [secrets.map((_, n) => `secret-${n}/secret+secret/${n}==`).join(":")];
}

/** The settings with the address that the console shows as an example. */
function settingsOf(kind: string, more: Partial<Settings> = {}): Settings {
  const { url } = kindOf(kind)!;
  const example = typeof url === "string" ? url : url.placeholder ?? url.options?.[0]?.value;
  return { kind, url: example ?? "", ...more };
}

async function requestOf(kind: string, batch: Batch, more: Partial<Settings> = {}) {
  const request = await destinationOf(settingsOf(kind, more)).build(batch, secretsOf(kind));
  const { body, headers, url } = request;
  const isPacked = headers["content-encoding"] === "gzip" || url.pathname.endsWith(".gz");
  return { ...request, text: (isPacked ? gunzipSync(body) : new TextDecoder().decode(body)) + "" };
}

const HEC = "/services/collector";
const PARTS = "errors%2Citems.*.status%2Citems.*.error%2Citems.*.failure_store";
const RULE = "/dataCollectionRules/dcr-1/streams/Custom-A";

/** What is meant by paths that people paste. */
const ADDRESSES: [kind: string, meant: string | RegExp, ...pasted: string[]][] = [
  ["splunk", `${HEC}/event`, "", "/", HEC, `${HEC}/`, `${HEC}/raw`, `${HEC}/event`],
  ["splunk", `/a${HEC}/event?b=c`, `/a${HEC}/event/1.0?b=c`],
  ["elasticsearch", `/i/_bulk?filter_path=${PARTS}`, "/i", "/i/", "/i/_bulk", "/i/_doc/1"],
  ["elasticsearch", /no index: write https:\/\/x\/audit-log$/, "", "/", "/_bulk", "/_search"],
  ["otlp", "/v1/logs", "", "/", "/v1/logs"],
  ["otlp", "/otlp/v1/logs", "/otlp", "/otlp/", "/otlp/v1/logs"],
  ["otlp", "/a/path?b=c", "/a/path?b=c"],
  ["datadog", "/api/v2/logs?a=b", "/?a=b", "/api/v2/logs/?a=b"],
  ["sentinel", `${RULE}?api-version=2023-01-01`, RULE, `${RULE}/?api-version=2023-01-01`],
  ["sentinel", /not one like .*\/dataCollectionRules\/dcr-.*\/streams\//, "", "/streams/a"],
];

const TOKEN = "eyJ0eXAi.t0kent0ken-t0kent0ken.s1gnature";

/** What an answer to a batch means. Whoever is asked for a token before it gives one. */
function verdictOf(
  kind: string,
  status: number,
  body: string | ((request: Outgoing) => string) = "",
  headers = {},
): Promise<Verdict> {
  const token = JSON.stringify({ token_type: "Bearer", expires_in: 3599, access_token: TOKEN });
  return sendAndJudge(destinationOf(settingsOf(kind)), BATCH, secretsOf(kind), (request) => {
    const isForToken = request.url.pathname.endsWith("/token");
    const said = typeof body === "string" ? body : body(request);
    const answer = isForToken ? { status: 200, body: token } : { status, body: said };
    return Promise.resolve({ ...answer, headers: new Headers(isForToken ? {} : headers) });
  });
}

/** What it says of a secret that no request can be made of. */
async function impossible(kind: string, secret: string, more?: Partial<Settings>) {
  const send = () => Promise.reject(new Error("was sent"));
  const verdict = await sendAndJudge(destinationOf(settingsOf(kind, more)), BATCH, [secret], send);
  assertEquals(verdict.decision, "wait", kind);
  return verdict.error ?? "";
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
        const { text } = await requestOf(kind, batch);
        // As JSON, perhaps with more fields, or as a text in JSON.
        for (const line of batch.lines) {
          assert(text.includes(line.slice(1)) || text.includes(JSON.stringify(line)), text);
        }
      }
    });
  }

  for (const kind of Object.keys(KINDS)) {
    it(`${kind} never says a secret, however its answer repeats what it got`, async () => {
      const secrets = secretsOf(kind);
      const forms: ((request: Outgoing) => string)[] = [
        () => secrets.join("\n"),
        () => JSON.stringify(secrets),
        ({ url }) => `Cannot POST ${url.pathname}`,
        ({ url }) => url.pathname.replaceAll("/", "\\/"),
        ({ headers }) => headers["authorization"] ?? JSON.stringify(headers),
      ];
      for (const form of forms) {
        for (const status of [200, 400, 401, 410, 500]) {
          const said = JSON.stringify(await verdictOf(kind, status, form));
          for (const part of [...secrets, TOKEN].flatMap((secret) => secret.split(/[\s:/\\+]+/))) {
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

  it("says what it saw in 200 characters, none of which hides or turns text or is the half of one, and waits as it is asked", async () => {
    const body = `a\u0000\u202eb\n${"x".repeat(5_000_000)}`;
    const error = `status 503: a\\u0000\\u202eb ${"x".repeat(185)}`;
    const verdict = await verdictOf("webhook", 503, body, { "Retry-After": "7" });
    assertEquals(verdict, { decision: "wait", error, waitS: 7 });
    for (let length = 190; length < 197; length++) {
      const verdict = await verdictOf("webhook", 503, `\u0001${"x".repeat(length)}😀`);
      assert(verdict.error?.isWellFormed(), `${length}`);
    }
  });

  it("is not asked with a secret that would be two headers, or of very many words, each of which would be searched for. No error says a part of a secret or a signature", async () => {
    for (const kind of ["splunk", "datadog", "elasticsearch"]) {
      const error = "the secret must be one line of ASCII characters";
      assertEquals(await impossible(kind, "x y\r\nhost: z"), error);
    }
    const secret = Array.from({ length: 101 }, (_, n) => `x-${n}: ${"k".repeat(8)}${n}`).join("\n");
    assertMatch(await impossible("otlp", secret), /more than 100 words/);
    const session = "SESSION\nSESSION";
    const said = await Promise.all([
      impossible("s3", `AKIAEXAMPLE:secretsecret:${session}`),
      impossible("s3", `${session}:secretsecret`),
      impossible("s3", "AKIAEXAMPLE:secretsecret", { region: "eu\r\nSESSION: x" }),
      impossible("webhook", `whsec_${session}!`),
      impossible("otlp", "Authorization: SESSION\u0000"),
    ]);
    assert(!/SESSION|AKIA|Signature/.test(said.join()), said.join());
  });

  it("takes an address as people paste it, or says which one is meant", () => {
    for (const [kind, meant, ...pasted] of ADDRESSES) {
      for (const path of pasted) {
        const address = () => kindOf(kind)!.address!(`https://x${path}`).href;
        if (typeof meant === "string") assertEquals(address(), `https://x${meant}`, path);
        else assertMatch(assertThrows(address, Error).message, meant, path);
      }
    }
  });
});

it("a webhook is signed with both secrets during a rotation, and a repeat has the same id", async () => {
  const { headers, text } = await requestOf("webhook", BATCH);
  const id = headers["webhook-id"];
  const signed = `${id}.${headers["webhook-timestamp"]}.${text}`;
  const signatures = [NEW, OLD].map((secret) => {
    const key = Buffer.from(secret.replace("whsec_", ""), "base64");
    return `v1,${createHmac("sha256", key).update(signed).digest("base64")}`;
  });
  assertEquals(headers["webhook-signature"], signatures.join(" "));
  assertEquals((await requestOf("webhook", BATCH)).headers["webhook-id"], id);
  const more = await requestOf("webhook", { ...BATCH, lines: LINES.slice(1) });
  assert(more.headers["webhook-id"] !== id);
});

it("a webhook says whether its lines are entries, seals or a test, and is an array if that is wanted", async () => {
  const { headers, text } = await requestOf("webhook", SEALS);
  assertEquals([headers["audit-log-content"], text], ["seals", `${SEAL}\n`]);
  const array = await requestOf("webhook", BATCH, { body: "array" });
  const { length } = JSON.parse(array.text);
  assertEquals([array.headers["content-type"], length], ["application/json", 3]);
});

it("Splunk gets times as seconds, and says when the token is at fault", async () => {
  const { headers, text, url } = await requestOf("splunk", BATCH);
  assertEquals(headers["authorization"], `Splunk ${secretsOf("splunk")[0]}`);
  assertEquals(url.href, "https://example.com:8088/services/collector/event");
  assertEquals(text.split("\n").map((line) => JSON.parse(line).time)[1], 1795161600.002);
  const index = await verdictOf("splunk", 400, '{"text":"Incorrect index","code":7}');
  assertEquals(index.decision, "wait");
  assertEquals((await verdictOf("splunk", 400, '{"code":6}')).decision, "rejected");
  assertEquals((await verdictOf("splunk", 200, '{"code":4}')).decision, "wait");
});

describe("Elasticsearch", () => {
  const bulk = (...statuses: number[]) => {
    const items = statuses.map((status) => ({ create: { status, error: { type: "why" } } }));
    return verdictOf("elasticsearch", 200, JSON.stringify({ errors: true, items }));
  };

  it("takes a repeat as delivered, rejects single entries by 400 or by its failure store, and makes all wait for the rest", async () => {
    assertEquals(await bulk(201, 409, 201), { decision: "delivered", rejected: [] });
    const rejectedFor = (reason: string) => ({
      decision: "delivered",
      rejected: [{ n: 1, reason }],
    });
    assertEquals(await bulk(201, 400, 201), rejectedFor('{"type":"why"}'));
    for (const statuses of [[201, 400, 429], [201, 403, 201], [201]]) {
      assertEquals((await bulk(...statuses)).decision, "wait");
    }
    const create = { status: 201 };
    const answer = (errors: boolean, second: object, third = {}) => {
      const items = [{ create }, { create: { ...create, ...second } }, third];
      return verdictOf("elasticsearch", 200, JSON.stringify({ errors, items }));
    };
    const closed = { status: 400, error: { type: "index_closed_exception" } };
    assertEquals((await answer(true, closed)).decision, "wait", "no entry is at fault");
    // It calls this a success.
    const stored = await answer(false, { failure_store: "used" }, { create });
    assertEquals(stored, rejectedFor("the entry is in the failure store"));
  });

  it("has an id for each entry and each seal, other ones for another organization, and a rewritten chain", async () => {
    const idsOf = async (batch: Batch) =>
      (await requestOf("elasticsearch", batch)).text.split("\n").filter((_, n) => n % 2 === 0)
        .filter(Boolean).map((line) => JSON.parse(line).create._id);
    const [id] = await idsOf(BATCH);
    assertMatch(id, new RegExp(`^[0-9a-f]{16}/${ID}1/2026-11-20T08:00:00.001Z$`));
    assertEquals((await idsOf(BATCH))[0], id);
    // Otherwise, the second one's entry would be taken for a repeat, and be lost.
    assert((await idsOf({ ...BATCH, platform_id: "acme2" }))[0] !== id);
    const [seal] = await idsOf(SEALS);
    const rewritten = SEAL.replaceAll("cc", "dd");
    assertMatch(seal, /^[0-9a-f]{16}\/seal\/312\/c+\//);
    assert((await idsOf({ ...SEALS, lines: [rewritten] }))[0] !== seal);
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

it("a bucket says what S3 rejects, and signs a folder with a plus and a space", async () => {
  const rejected = await verdictOf("s3", 403, "<Code>SignatureDoesNotMatch</Code>");
  assert(rejected.error?.includes("SignatureDoesNotMatch"));
  const { url } = await requestOf("s3", BATCH, { url: "https://x.example/bucket/a+b c" });
  assert(url.pathname.startsWith("/bucket/a%2Bb%20c/"), url.pathname);
});

it("a bucket gets objects whose names sort by number, the same for a repeat, seals in a folder of their own, and the sum that Object Lock demands of what arrives", async () => {
  const { headers, body } = await requestOf("s3", BATCH);
  assertEquals(headers["content-md5"], createHash("md5").update(body).digest("base64"));
  const nameOf = async (batch: Batch) => (await requestOf("s3", batch)).url.pathname;
  const object = (number: string) => `/bucket/audit-log/${number}-0123456789abcdef.ndjson.gz`;
  assertEquals(await nameOf({ ...BATCH, number: 9 }), object("000000000009"));
  assertEquals(await nameOf({ ...BATCH, lines: LINES.slice(1) }), object("000000002000"));
  assertEquals(await nameOf(SEALS), object("seals/000000002000"));
});

it("Datadog gets the time of each entry in the attribute that it reads, as its agent writes it, and a tag of the organization", async () => {
  const { text, url } = await requestOf("datadog", BATCH);
  assertEquals(url.href, "https://http-intake.logs.datadoghq.eu/api/v2/logs");
  const [log] = JSON.parse(text);
  assertEquals([log.timestamp, log.ddtags], [1795161600001, "organization:acme"]);
});

describe("Microsoft Sentinel", () => {
  const TENANT = "11111111-2222-3333-4444-555555555555";
  const SECRET = `${TENANT}:the-application:a~secret.value:of_it`;
  const LOGIN = {
    grant_type: "client_credentials",
    scope: "https://monitor.azure.com//.default",
    client_id: "the-application",
    client_secret: "a~secret.value:of_it",
  };

  /** Stands in for Microsoft, as its pages on the Logs Ingestion API and on client credentials say. */
  function standIn({ method, url, headers, body }: Outgoing): [status: number, answer?: object] {
    if (method !== "POST") return [405];
    if (url.host === "login.microsoftonline.com") {
      const form = Object.fromEntries(new URLSearchParams(new TextDecoder().decode(body)));
      const isForm = headers["content-type"] === "application/x-www-form-urlencoded";
      if (!isForm || url.pathname !== `/${TENANT}/oauth2/v2.0/token`) return [404];
      return Object.entries(LOGIN).every(([name, value]) => form[name] === value)
        ? [200, { token_type: "Bearer", expires_in: 3599, access_token: TOKEN }]
        // A batch that is answered so is halved. This one waits.
        : [400, { error: "invalid_client", error_description: form }];
    }
    if (headers["authorization"] !== `Bearer ${TOKEN}`) return [403];
    if (url.searchParams.get("api-version") !== "2023-01-01") return [404];
    if (headers["content-type"] !== "application/json") return [415];
    const text = gunzipSync(body);
    if (text.length > 1_000_000) return [413];
    const rows: { TimeGenerated: string; Entry: { id: string } }[] = JSON.parse(`${text}`);
    received.push(...rows.map(({ TimeGenerated, Entry }) => `${TimeGenerated} ${Entry.id}`));
    return [204];
  }
  const received: string[] = [];

  function deliver(secret: string, batch = BATCH) {
    return sendAndJudge(destinationOf(settingsOf("sentinel")), batch, [secret], (request) => {
      const [status, answer] = standIn(request);
      const body = answer ? JSON.stringify(answer) : "";
      return Promise.resolve({ status, body, headers: new Headers() });
    });
  }

  it("asks for a token, and gets each entry with its time, in requests of 1 MB at most", async () => {
    assertEquals(await deliver(SECRET), { decision: "delivered" });
    assertEquals(received[2], `2026-11-20T08:00:00.003Z ${ID}3`);
    const [line = ""] = LINES;
    const lines = Array(1_000).fill(line.replace("*", "*".repeat(900 - line.length)));
    assertEquals(await deliver(SECRET, { ...BATCH, lines }), { decision: "delivered" });
  });

  it("gets no entry without a token, and says why without the secret", async () => {
    const { decision, error = "" } = await deliver(SECRET.replace("value", "wrongvalue"));
    assertMatch(error, /^no token: status 400: {"error":"invalid_client"/);
    assertEquals([decision, error.includes("wrongvalue")], ["wait", false]);
  });
});

it("Slack gets a sentence an entry, in which no name is a mention, a link or a line of its own", async () => {
  const { text, url } = await requestOf("slack", BATCH);
  assertEquals(url.pathname, `/services/${secretsOf("slack")[0]}`);
  const sentences = JSON.parse(text).text.split("\n");
  assertEquals(sentences.length, 3);
  const agent = "“&lt;!channel&gt; &amp; &lt;http://x|y&gt; *”";
  const said = `2026-11-20 08:00:00 UTC: agent_added by ada@analytical.example, agent ${agent}`;
  assertEquals(sentences[0], said);
  assertMatch(JSON.parse((await requestOf("slack", SEALS)).text).text, /To keep: 312:c{64}$/);
});
