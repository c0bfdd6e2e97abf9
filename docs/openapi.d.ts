export interface paths {
  "/public-audit-log": {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /**
     * Read a page of the audit log
     * @description Returns the entries of the key's organization from `start` to `end`, both inclusive, by UTC day. An unknown or repeated parameter is an error. An `offset` beyond the last entry gives an empty page with the true `total`. With `after`, the page has the entries that are new since the given cursor, from all days unless `start` and `end` are given.
     */
    get: operations["readAuditLog"];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  "/public-audit-log/entries/{id}": {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /**
     * Read one entry
     * @description Returns the entry with this `id` and `created_at`, with the same bytes as in a page. `created_at` leads to the entry; there is no index of the ids alone.
     */
    get: operations["readEntry"];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  "/public-audit-log/actions": {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /**
     * Read which actions there are
     * @description Returns the actions that entries may have, in a stable order. New ones may appear at any time; none disappears or changes its code while entries have it.
     */
    get: operations["readActions"];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  "/public-audit-log/seals": {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /**
     * Read the seals of finished days
     * @description Each night, the service seals every finished UTC day: it stores a hash of the day's entries, chained to the previous seal. Keep a copy of one `seal` outside the service, and you can show later whether the log was changed. `start` and `end` select by `day`. A day that received or lost entries after it was sealed has several seals. To read the chain after sequence n, ask for all days with `offset=n`. `docs/verifying.md` shows how to check an export.
     */
    get: operations["readSeals"];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
}
export type webhooks = Record<string, never>;
export interface components {
  schemas: {
    /** @description One action of one person */
    AuditEntry: {
      /**
       * Format: uuid
       * @description Identifies the entry, together with `created_at`
       */
      id: string;
      /**
       * Format: date-time
       * @description When it happened, to the millisecond, in UTC
       */
      created_at: string;
      /** @description `agent_added`: an agent was activated for the organization; `conversation_created`: a user started a conversation; `message_created`: a user sent a message in a conversation; `feedback_given`: a user gave thumbs up or down on a message; or another code of `/actions`. More may be added at any time */
      action: string;
      /** @description The e-mail address of the person who did it */
      user_email: string;
      /** @description The name of the agent involved */
      agent_name: string;
      /** @description What the action is about. For `message_created` it has `message_id`, `conversation_id`, `agent_id` and `platform_agent_sid`, all strings. For other actions, `required` in `/actions` names what it always has */
      data: {
        [key: string]: unknown;
      };
    };
    /** @description A page of the audit log of one organization */
    Page: {
      /** @description The organization that owns the API key */
      organization_id: string;
      /**
       * Format: date
       * @description As in the request; 0001-01-01 if it was left out
       */
      start: string;
      /**
       * Format: date
       * @description As in the request; 9999-12-31 if it was left out
       */
      end: string;
      /** @description The exact number of matching entries when `items` were read. With `after` and `object`, if more than 25,000 entries have to be looked through for it, the number of these */
      total: number;
      /** @description As in the request, or its default */
      limit: number;
      /** @description As in the request, or its default */
      offset: number;
      /** @description Only if it was asked for: as in the request */
      since?: string;
      /** @description Only if it was asked for: as in the request */
      until?: string;
      /** @description Only with `after`: give it as `after` in your next request, now or whenever you like */
      cursor?: string;
      /** @description Only with `after`: `false` means that you have caught up, so wait before you ask again. `true` means that you can ask at once, even if this page is short or empty */
      has_more?: boolean;
      /**
       * Format: uri
       * @description Only with `after`: the absolute address to ask for next, as in `Link`; null when you have caught up
       */
      next?: string | null;
      /** @description The entries of this page */
      items: components["schemas"]["AuditEntry"][];
    };
    /** @description The state of a finished day. If a day has several seals, the last one counts */
    Seal: {
      /** @description How the seal and the lines of its entries are written; 1 is what is described here */
      format: number;
      /** @description Its number in the organization's chain: 1, 2, 3 and so on */
      sequence: number;
      /**
       * Format: date
       * @description The UTC day that is sealed
       */
      day: string;
      /** @description How many entries the day has */
      entries: number;
      /** @description Entries added since the day's previous seal; 0 in its first */
      added: number;
      /** @description Entries deleted since the day's previous seal; 0 in its first */
      removed: number;
      /** @description The hash of the day. Take the day as `application/x-ndjson`, and hash each block of 1000 lines with SHA-256. Write these hashes in hexadecimal, each on a line of its own, and hash that text */
      sha256: string;
      /**
       * Format: date-time
       * @description When the seal was made, to the millisecond, in UTC
       */
      sealed_at: string;
      /** @description The `seal` before it in the chain; 64 zeros in the first seal */
      previous: string;
      /** @description SHA-256 of `format previous sequence day entries added removed sha256 sealed_at`, with single spaces between them and no line break */
      seal: string;
    };
    /** @description A page of the seals of one organization */
    SealsPage: {
      /** @description The organization that owns the API key */
      organization_id: string;
      /**
       * Format: date
       * @description As in the request; 0001-01-01 if it was left out
       */
      start: string;
      /**
       * Format: date
       * @description As in the request; 9999-12-31 if it was left out
       */
      end: string;
      /** @description The exact number of matching items when `items` were read */
      total: number;
      /** @description As in the request, or its default */
      limit: number;
      /** @description As in the request, or its default */
      offset: number;
      /** @description Days of the range whose entries differ from their seal, although no later seal declares a change */
      altered: string[];
      /** @description The seals of this page, by `sequence` */
      items: components["schemas"]["Seal"][];
    };
    /** @description One kind of action */
    Action: {
      /** @description What entries have in `action` */
      code: string;
      /** @description What it means, for a person */
      description: string;
      /** @description Fields that `data` of a new entry always has, as strings */
      required: string[];
      /** @description The field of `data` that names what the action was done to, as its id, or null */
      target: string | null;
      /** @description The field of `data` with the name by which a person knows the target, or null */
      target_name: string | null;
      /**
       * Format: date-time
       * @description Since when the platform should not write it any more, or null. Older entries keep it
       */
      deprecated_at: string | null;
    };
    /** @description The actions that entries may have */
    ActionsPage: {
      /** @description The organization that owns the API key */
      organization_id: string;
      /** @description How many actions there are */
      total: number;
      /** @description All actions */
      items: components["schemas"]["Action"][];
    };
    /** @description One bad parameter of the query string */
    ParameterError: {
      /** @description Its name */
      parameter: string;
      /** @description What was seen, and what it must be */
      detail: string;
    };
    /** @description What went wrong (RFC 9457) */
    Problem: {
      /** @description `about:blank`, or the address of a page about this `code` */
      type: string;
      /** @description The status in words */
      title: string;
      /** @description The status of the answer */
      status: number;
      /** @description What is wrong and what to do, for a person */
      detail: string;
      /** @description What is wrong, for a program: invalid_parameters, unauthorized, not_found, entry_not_found, method_not_allowed, rate_limited, internal_error. More may be added: if you do not know a code, go by the status */
      code: string;
      /**
       * Format: uuid
       * @description What to quote when reporting it; also in `X-Request-Id`
       */
      request_id: string;
      /** @description With 400: every bad parameter; of unknown ones, the first 20 */
      errors?: components["schemas"]["ParameterError"][];
    };
  };
  responses: never;
  parameters: never;
  requestBodies: never;
  headers: {
    /**
     * @description Answers must not be stored: they are for the holder of the key only
     * @example no-store
     */
    "Cache-Control": string;
    /**
     * @description The answer depends on the key and on the requested media type
     * @example Authorization, Accept
     */
    Vary: string;
    /**
     * @description Clients must not guess another type than `Content-Type`
     * @example nosniff
     */
    "X-Content-Type-Options": string;
    /**
     * @description Identifies this request: quote it when you report a problem
     * @example 2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52
     */
    "X-Request-Id": string;
    /**
     * @description The rate limit (draft-ietf-httpapi-ratelimit-headers-10): 60 requests in any 60 seconds
     * @example "default";q=60;w=60
     */
    "RateLimit-Policy": string;
    /**
     * @description `r` requests are left now. In `t` seconds, the oldest counted request leaves the window and one more is possible (draft-ietf-httpapi-ratelimit-headers-10)
     * @example "default";r=59;t=60
     */
    RateLimit: string;
    /**
     * @description Seconds until the next request will be accepted (RFC 9110)
     * @example 60
     */
    "Retry-After": number;
    /**
     * @description Absolute addresses of the `first`, `prev`, `next` and `last` page (RFC 8288). The last page has no `next`. If they have more than 8,000 characters, there is only `next`, or on the last page `first`. With `after`, there is only `next`, and only while `has_more` is true
     * @example <https://project-ref.supabase.co/functions/v1/public-audit-log?start=2026-11-01&end=2026-11-20&limit=100&offset=0>; rel="first", <https://project-ref.supabase.co/functions/v1/public-audit-log?start=2026-11-01&end=2026-11-20&limit=100&offset=0>; rel="last"
     */
    Link: string;
    /**
     * @description Where the operator has set them: the pages about the API (`service-doc`) and this contract (`service-desc`), as in RFC 8631
     * @example <https://console.example.com/docs/api.html>; rel="service-doc", <https://console.example.com/openapi.json>; rel="service-desc"
     */
    DocumentationLink: string;
    /** @description Only with `after`: the same as `cursor`, for readers of NDJSON */
    "X-Cursor": string;
    /**
     * @description Only with `after`: the same as `has_more`, for readers of NDJSON
     * @example false
     */
    "X-Has-More": "true" | "false";
    /**
     * @description The same number as `total`
     * @example 1
     */
    "X-Total-Count": number;
    /**
     * @description Contains `error` only if a token was sent (RFC 6750 section 3)
     * @example Bearer realm="public-audit-log", error="invalid_token"
     */
    "WWW-Authenticate": string;
    /**
     * @description The only method that is supported (RFC 9110)
     * @example GET
     */
    Allow: string;
  };
  pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
  readAuditLog: {
    parameters: {
      query?: {
        /**
         * @description The first day, in UTC; a real day of the years 0001 to 9999. Required without `since`, `until` and `after`
         * @example 2026-10-01
         */
        start?: string;
        /**
         * @description The last day, in UTC, inclusive; not before `start`. Required without `since`, `until` and `after`
         * @example 2026-10-31
         */
        end?: string;
        /**
         * @description Only entries from this time on: RFC 3339, with a zone, such as 2026-11-20T15:04:05Z
         * @example 2026-10-13T00:00:00Z
         */
        since?: string;
        /**
         * @description Only entries before this time, written as in `since`
         * @example 2026-11-01T00:00:00Z
         */
        until?: string;
        /**
         * @description Only entries with one of these actions: up to 20 codes of `/actions`, joined by commas
         * @example agent_added,message_created
         */
        action?: string;
        /**
         * @description Only entries of this person: the address, in upper or lower case
         * @example ada@analytical.example
         */
        user_email?: string;
        /**
         * @description At most this many entries in a page
         * @example 100
         */
        limit?: number;
        /**
         * @description How many matching entries to skip
         * @example 0
         */
        offset?: number;
        /**
         * @description `beginning`, or the `cursor` of your last answer. The page has the entries committed since, and `has_more` says whether there are more
         * @example beginning
         */
        after?: string;
        /**
         * @description By `created_at`, then `id`: oldest first, or `desc`, newest first
         * @example asc
         */
        order?: "asc" | "desc";
        /**
         * @description Only entries about this: those whose `data` has exactly this text as a value, at its top level. Numbers are not compared
         * @example 39470528-7d79-a50a-8005-8d054305127a
         */
        object?: string;
      };
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description A page of entries. If `Accept` prefers `application/x-ndjson`, the body is one `AuditEntry` a line, each with the same bytes as in the JSON page, and empty if the page has no entries */
      200: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
          RateLimit: components["headers"]["RateLimit"];
          Link: components["headers"]["Link"];
          "X-Total-Count": components["headers"]["X-Total-Count"];
          "X-Cursor": components["headers"]["X-Cursor"];
          "X-Has-More": components["headers"]["X-Has-More"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "organization_id": "0a11ce00-0000-4000-8000-000000000001",
           *       "start": "2026-10-01",
           *       "end": "2026-10-31",
           *       "total": 1,
           *       "limit": 100,
           *       "offset": 0,
           *       "items": [
           *         {
           *           "id": "86fcf175-11f2-9fac-655e-ba9d95717239",
           *           "created_at": "2026-10-26T11:33:53.752Z",
           *           "action": "message_created",
           *           "user_email": "ada@analytical.example",
           *           "agent_name": "Invoice Clerk",
           *           "data": {
           *             "agent_id": "39470528-7d79-a50a-8005-8d054305127a",
           *             "message_id": "5304d1e0-6491-1f3c-35ed-b796e5f39988",
           *             "conversation_id": "289dedab-0645-9d32-88d9-f04f38f69d11",
           *             "platform_agent_sid": "AGc16cc58639890ece0ce60640403e7769"
           *           }
           *         }
           *       ]
           *     }
           */
          "application/json": components["schemas"]["Page"];
        };
      };
      /** @description The query string is invalid */
      400: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
          RateLimit: components["headers"]["RateLimit"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Bad Request",
           *       "status": 400,
           *       "detail": "The query string is invalid.",
           *       "code": "invalid_parameters",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52",
           *       "errors": [
           *         {
           *           "parameter": "acton",
           *           "detail": "unknown parameter: must be one of: start, end, since, until, action, user_email, limit, offset, after, order, object"
           *         }
           *       ]
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
      /** @description The token is missing, malformed, unknown, expired or revoked; the answer is the same for all */
      401: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Unauthorized",
           *       "status": 401,
           *       "detail": "A valid API key is required: Authorization: Bearer pck_…",
           *       "code": "unauthorized",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52"
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
      /** @description The path is below this one and does not exist */
      404: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Not Found",
           *       "status": 404,
           *       "detail": "There is nothing here. The audit log is at /functions/v1/public-audit-log.",
           *       "code": "not_found",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52"
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
      /** @description The method is not GET; HEAD and OPTIONS are refused, too */
      405: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          Allow: components["headers"]["Allow"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Method Not Allowed",
           *       "status": 405,
           *       "detail": "Only GET is supported.",
           *       "code": "method_not_allowed",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52"
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
      /** @description 60 requests of the key were counted in the last 60 seconds; refused requests are not counted */
      429: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
          RateLimit: components["headers"]["RateLimit"];
          "Retry-After": components["headers"]["Retry-After"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Too Many Requests",
           *       "status": 429,
           *       "detail": "This API key has used up its quota (RateLimit-Policy). Wait as many seconds as Retry-After says.",
           *       "code": "rate_limited",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52"
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
      /** @description Something failed in the service: try again */
      500: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Internal Server Error",
           *       "status": 500,
           *       "detail": "Something failed on our side. Try again; if it persists, report the request_id.",
           *       "code": "internal_error",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52"
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
    };
  };
  readEntry: {
    parameters: {
      query: {
        /**
         * @description The entry's `created_at`, as answers have it, or the same moment in another zone
         * @example 2026-10-26T11:33:53.752Z
         */
        created_at: string;
      };
      header?: never;
      path: {
        /**
         * @description The entry's `id`
         * @example 86fcf175-11f2-9fac-655e-ba9d95717239
         */
        id: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description The entry */
      200: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
          RateLimit: components["headers"]["RateLimit"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "id": "86fcf175-11f2-9fac-655e-ba9d95717239",
           *       "created_at": "2026-10-26T11:33:53.752Z",
           *       "action": "message_created",
           *       "user_email": "ada@analytical.example",
           *       "agent_name": "Invoice Clerk",
           *       "data": {
           *         "agent_id": "39470528-7d79-a50a-8005-8d054305127a",
           *         "message_id": "5304d1e0-6491-1f3c-35ed-b796e5f39988",
           *         "conversation_id": "289dedab-0645-9d32-88d9-f04f38f69d11",
           *         "platform_agent_sid": "AGc16cc58639890ece0ce60640403e7769"
           *       }
           *     }
           */
          "application/json": components["schemas"]["AuditEntry"];
        };
      };
      /** @description The query string is invalid */
      400: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
          RateLimit: components["headers"]["RateLimit"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Bad Request",
           *       "status": 400,
           *       "detail": "The query string is invalid.",
           *       "code": "invalid_parameters",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52",
           *       "errors": [
           *         {
           *           "parameter": "acton",
           *           "detail": "unknown parameter: must be one of: id, created_at"
           *         }
           *       ]
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
      /** @description The token is missing, malformed, unknown, expired or revoked; the answer is the same for all */
      401: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Unauthorized",
           *       "status": 401,
           *       "detail": "A valid API key is required: Authorization: Bearer pck_…",
           *       "code": "unauthorized",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52"
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
      /** @description The organization has no such entry */
      404: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
          RateLimit: components["headers"]["RateLimit"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Not Found",
           *       "status": 404,
           *       "detail": "The log has no entry with this id and created_at.",
           *       "code": "entry_not_found",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52"
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
      /** @description The method is not GET; HEAD and OPTIONS are refused, too */
      405: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          Allow: components["headers"]["Allow"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Method Not Allowed",
           *       "status": 405,
           *       "detail": "Only GET is supported.",
           *       "code": "method_not_allowed",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52"
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
      /** @description 60 requests of the key were counted in the last 60 seconds; refused requests are not counted */
      429: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
          RateLimit: components["headers"]["RateLimit"];
          "Retry-After": components["headers"]["Retry-After"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Too Many Requests",
           *       "status": 429,
           *       "detail": "This API key has used up its quota (RateLimit-Policy). Wait as many seconds as Retry-After says.",
           *       "code": "rate_limited",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52"
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
      /** @description Something failed in the service: try again */
      500: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Internal Server Error",
           *       "status": 500,
           *       "detail": "Something failed on our side. Try again; if it persists, report the request_id.",
           *       "code": "internal_error",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52"
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
    };
  };
  readActions: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description All actions */
      200: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
          RateLimit: components["headers"]["RateLimit"];
          "X-Total-Count": components["headers"]["X-Total-Count"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "organization_id": "0a11ce00-0000-4000-8000-000000000001",
           *       "total": 1,
           *       "items": [
           *         {
           *           "code": "message_created",
           *           "description": "A user sent a message in a conversation",
           *           "required": [
           *             "message_id",
           *             "conversation_id",
           *             "agent_id",
           *             "platform_agent_sid"
           *           ],
           *           "target": "message_id",
           *           "target_name": null,
           *           "deprecated_at": null
           *         }
           *       ]
           *     }
           */
          "application/json": components["schemas"]["ActionsPage"];
        };
      };
      /** @description The query string is invalid */
      400: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
          RateLimit: components["headers"]["RateLimit"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Bad Request",
           *       "status": 400,
           *       "detail": "The query string is invalid.",
           *       "code": "invalid_parameters",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52",
           *       "errors": [
           *         {
           *           "parameter": "limit",
           *           "detail": "unknown parameter: there are none here"
           *         }
           *       ]
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
      /** @description The token is missing, malformed, unknown, expired or revoked; the answer is the same for all */
      401: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Unauthorized",
           *       "status": 401,
           *       "detail": "A valid API key is required: Authorization: Bearer pck_…",
           *       "code": "unauthorized",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52"
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
      /** @description The path is below this one and does not exist */
      404: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Not Found",
           *       "status": 404,
           *       "detail": "There is nothing here. The audit log is at /functions/v1/public-audit-log.",
           *       "code": "not_found",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52"
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
      /** @description The method is not GET; HEAD and OPTIONS are refused, too */
      405: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          Allow: components["headers"]["Allow"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Method Not Allowed",
           *       "status": 405,
           *       "detail": "Only GET is supported.",
           *       "code": "method_not_allowed",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52"
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
      /** @description 60 requests of the key were counted in the last 60 seconds; refused requests are not counted */
      429: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
          RateLimit: components["headers"]["RateLimit"];
          "Retry-After": components["headers"]["Retry-After"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Too Many Requests",
           *       "status": 429,
           *       "detail": "This API key has used up its quota (RateLimit-Policy). Wait as many seconds as Retry-After says.",
           *       "code": "rate_limited",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52"
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
      /** @description Something failed in the service: try again */
      500: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Internal Server Error",
           *       "status": 500,
           *       "detail": "Something failed on our side. Try again; if it persists, report the request_id.",
           *       "code": "internal_error",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52"
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
    };
  };
  readSeals: {
    parameters: {
      query: {
        /**
         * @description The first day, in UTC; a real day of the years 0001 to 9999
         * @example 2026-10-01
         */
        start: string;
        /**
         * @description The last day, in UTC, inclusive; not before `start`
         * @example 2026-10-31
         */
        end: string;
        /**
         * @description At most this many seals in a page
         * @example 100
         */
        limit?: number;
        /**
         * @description How many matching seals to skip
         * @example 0
         */
        offset?: number;
      };
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description A page of seals */
      200: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
          RateLimit: components["headers"]["RateLimit"];
          Link: components["headers"]["Link"];
          "X-Total-Count": components["headers"]["X-Total-Count"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "organization_id": "0a11ce00-0000-4000-8000-000000000001",
           *       "start": "2026-10-01",
           *       "end": "2026-10-31",
           *       "total": 1,
           *       "limit": 100,
           *       "offset": 0,
           *       "altered": [],
           *       "items": [
           *         {
           *           "format": 1,
           *           "sequence": 320,
           *           "day": "2026-10-12",
           *           "entries": 23,
           *           "added": 0,
           *           "removed": 0,
           *           "sha256": "c32217dc4e458e06a6f123cd760914f1f6e53ed2ad1b459f3fda4b70b5343477",
           *           "sealed_at": "2026-11-27T10:50:18.389Z",
           *           "previous": "f1ddff7025eb30fbef9bd85115ed1acccc2f298adae99fdfc4f05d9596af9f40",
           *           "seal": "4c1b5525842143d8d66488243799a7524fce8907cafb502ccab2ab66b97f19af"
           *         }
           *       ]
           *     }
           */
          "application/json": components["schemas"]["SealsPage"];
        };
      };
      /** @description The query string is invalid */
      400: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
          RateLimit: components["headers"]["RateLimit"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Bad Request",
           *       "status": 400,
           *       "detail": "The query string is invalid.",
           *       "code": "invalid_parameters",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52",
           *       "errors": [
           *         {
           *           "parameter": "acton",
           *           "detail": "unknown parameter: must be one of: start, end, limit, offset"
           *         }
           *       ]
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
      /** @description The token is missing, malformed, unknown, expired or revoked; the answer is the same for all */
      401: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Unauthorized",
           *       "status": 401,
           *       "detail": "A valid API key is required: Authorization: Bearer pck_…",
           *       "code": "unauthorized",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52"
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
      /** @description The path is below this one and does not exist */
      404: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Not Found",
           *       "status": 404,
           *       "detail": "There is nothing here. The audit log is at /functions/v1/public-audit-log.",
           *       "code": "not_found",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52"
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
      /** @description The method is not GET; HEAD and OPTIONS are refused, too */
      405: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          Allow: components["headers"]["Allow"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Method Not Allowed",
           *       "status": 405,
           *       "detail": "Only GET is supported.",
           *       "code": "method_not_allowed",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52"
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
      /** @description 60 requests of the key were counted in the last 60 seconds; refused requests are not counted */
      429: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
          RateLimit: components["headers"]["RateLimit"];
          "Retry-After": components["headers"]["Retry-After"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Too Many Requests",
           *       "status": 429,
           *       "detail": "This API key has used up its quota (RateLimit-Policy). Wait as many seconds as Retry-After says.",
           *       "code": "rate_limited",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52"
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
      /** @description Something failed in the service: try again */
      500: {
        headers: {
          "Cache-Control": components["headers"]["Cache-Control"];
          Vary: components["headers"]["Vary"];
          "X-Content-Type-Options": components["headers"]["X-Content-Type-Options"];
          "X-Request-Id": components["headers"]["X-Request-Id"];
          Link: components["headers"]["DocumentationLink"];
          [name: string]: unknown;
        };
        content: {
          /**
           * @example {
           *       "type": "about:blank",
           *       "title": "Internal Server Error",
           *       "status": 500,
           *       "detail": "Something failed on our side. Try again; if it persists, report the request_id.",
           *       "code": "internal_error",
           *       "request_id": "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52"
           *     }
           */
          "application/problem+json": components["schemas"]["Problem"];
        };
      };
    };
  };
}
