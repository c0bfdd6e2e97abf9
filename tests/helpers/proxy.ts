import { age, AUDIT_LOG_URL, type Organization, type Page, sql } from "./mod.ts";
import { signal } from "./cluster.ts";
import { serveOnLoopback } from "./loopback.ts";

/** Answers the nth request of a proxy, from 1 on. `forward()` gets the API's answer. */
type Behaviour = (
  number: number,
  forward: () => Promise<Response>,
  url: string,
) => Promise<Response> | Response;

/** Starts a proxy between a client and the API. The key of an unlimited organization never uses up its quota there. */
export function startProxy(behaviour: Behaviour, unlimited?: Organization) {
  const requestedAt: number[] = [];
  const server = serveOnLoopback(({ url, headers }) => {
    const forward = async () => {
      if (unlimited) await age(sql, unlimited.apiKeyId, "1 minute");
      const authorization = headers.get("Authorization") ?? "";
      const accept = headers.get("Accept") ?? "*/*";
      const target = url.replace(/^.*?\/public-audit-log/, AUDIT_LOG_URL);
      const answer = await fetch(target, { headers: { authorization, accept } });
      return new Response(answer.body, answer);
    };
    return behaviour(requestedAt.push(performance.now()), forward, url);
  });
  return { ...server, url: `${server.url}/public-audit-log`, requestedAt };
}

/**
 * Starts a proxy that kills its `victim` after so many answers, or when that has caught up: then it might only wait.
 * `delay` says how many milliseconds after the answer.
 */
export function startKiller(organization: Organization, delay: () => number) {
  const proxy = startProxy(async (_number, forward) => {
    const response = await forward();
    const { has_more }: Page = await response.clone().json();
    const { victim } = killer;
    if (victim && (--victim.answersLeft === 0 || !has_more)) {
      // It may have ended by itself.
      setTimeout(() => signal([victim.process.pid], "SIGKILL"), delay());
    }
    return response;
  }, organization);
  type Victim = { process: Deno.ChildProcess; answersLeft: number };
  const killer: typeof proxy & { victim?: Victim | undefined } = { ...proxy };
  return killer;
}

/** Refuses a request, and says when to ask again. */
export function tryAgain(status: number, retryAfter = "0", id = ""): Response {
  const headers = { "Retry-After": retryAfter, "X-Request-Id": id };
  return new Response("", { status, headers });
}
