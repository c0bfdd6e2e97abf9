import type { Reading } from "./ask_database.ts";
import { NDJSON, pageAddress, pageLinks, prefersNdjson } from "./headers.ts";
import type { Resource } from "./parse_query.ts";
import type { ActionsPage, Page, SealsPage } from "./page_schema.ts";
import type { Query } from "./query_schema.ts";
import type { Slot } from "./slots.ts";
import { toNdjson } from "./unparsed_items.ts";

export interface PageResponseOptions {
  resource: Resource;
  /** Where callers reach this resource, for the links to other pages. */
  url: string;
  accept: string | null;
  /** The request's slot, which a large body keeps until it has been sent. */
  slot: Slot;
  headers: HeadersInit;
}

/** Answers 200 with a page, as JSON or NDJSON, or with one entry, as JSON. */
export function pageResponse(
  query: Query,
  { organization_id, total, cursor, has_more, altered, items }: Reading,
  { resource, url, accept, slot, headers }: PageResponseOptions,
): Response {
  const json = { "Content-Type": "application/json" };
  if (resource === "entry") {
    // Without the brackets of the list.
    return respondWith("", items.subarray(1, -1), "", { slot, headers: { ...headers, ...json } });
  }
  const { start, end, since, until, limit, offset } = query;
  const next = cursor && has_more ? pageAddress(url, query, { after: cursor }) : null;
  const common = {
    ...headers,
    ...next && { "Link": `<${next}>; rel="next"` },
    ...!cursor && resource !== "actions" && { "Link": pageLinks(url, query, total) },
    "X-Total-Count": String(total),
    ...cursor && { "X-Cursor": cursor, "X-Has-More": String(has_more) },
  };
  // Seals and actions are always one JSON document.
  if (resource === "entries" && prefersNdjson(accept)) {
    const headers = { ...common, "Content-Type": NDJSON };
    return respondWith("", toNdjson(items), "", { slot, headers });
  }
  const page: Omit<Page | SealsPage | ActionsPage, "items"> = {
    organization_id,
    ...resource !== "actions" && { start, end },
    ...since && { since },
    ...until && { until },
    total,
    ...resource !== "actions" && { limit, offset },
    ...cursor && { cursor, has_more: has_more === true, next },
    ...altered && { altered },
  };
  const before = `${JSON.stringify(page).slice(0, -1)},"items":`;
  return respondWith(before, items, "}", { slot, headers: { ...common, ...json } });
}

const CHUNK = 65_536;

/**
 * The garbage collector frees the pieces only when new buffers have added up to 64 MiB, a quarter of what Supabase
 * allows. So after each page we allocate a buffer of this many bytes: the collector counts it, and runs earlier. The
 * buffer takes no memory, because nobody writes to it.
 */
const BALLAST = 33 * 1024 ** 2;

/** A body that is not read whole within this many milliseconds is given up. */
const LONGEST_READING = 60_000;

/**
 * A response of `before`, the bytes and `after`. A small body is sent at once, which is fastest. A large one
 * is sent in pieces, its slot ends with it, and its memory is freed at once: the garbage collector would let
 * hundreds of megabytes pile up.
 */
function respondWith(
  before: string,
  bytes: Uint8Array<ArrayBuffer>,
  after: string,
  { slot, headers }: { slot: Slot; headers: HeadersInit },
): Response {
  const text = new TextEncoder();
  const [first, last] = [text.encode(before), text.encode(after)];
  const length = first.length + bytes.length + last.length;
  const body = length > CHUNK
    ? stream(first, bytes, last, slot)
    : before + new TextDecoder().decode(bytes) + after;
  return new Response(body, { headers: { ...headers, "Content-Length": String(length) } });
}

function stream(first: Uint8Array, bytes: Uint8Array<ArrayBuffer>, last: Uint8Array, slot: Slot) {
  slot.bodyBytes = bytes.length;
  let sent = 0;
  const end = () => {
    clearTimeout(timer);
    bytes.buffer.transfer(0);
    new ArrayBuffer(BALLAST);
    slot.shrinkTo(0);
  };
  let timer: ReturnType<typeof setTimeout>;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(first);
      timer = setTimeout(() => {
        controller.error(new Error(`the body was not read whole within ${LONGEST_READING} ms`));
        end();
      }, LONGEST_READING);
    },
    pull(controller) {
      // A copy, because the receiver may still have it when `bytes` is freed.
      controller.enqueue(bytes.slice(sent, sent += CHUNK));
      if (sent < bytes.length) return;
      controller.enqueue(last);
      controller.close();
      end();
    },
    cancel: end,
  }, { highWaterMark: 0 });
}
