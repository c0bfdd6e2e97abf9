// The codes of PostgREST that tests compare. They differ from version to version (docs/platform.md).

/** It is reading the schema. */
export const READING_SCHEMA = "PGRST002";

/** It has no connection, is reading the schema, or has waited too long for a connection (504). */
export const NO_CONNECTION = ["PGRST000", "PGRST001", READING_SCHEMA, "PGRST003"];

/** It has not read the schema that a push has made. */
export const NOT_READ_YET = new RegExp(`${READING_SCHEMA}|PGRST106|PGRST2`);

/** There is no such column in what was sent. */
export const NO_COLUMN = "PGRST204";

/** There is no such relationship; no plans; no sums. */
export const REFUSED_QUERIES = ["PGRST200", "PGRST107", "PGRST123"];
