/** What can be wrong. Programs rely on these codes; docs/verifying.md says what each means. */
export const PROBLEMS = [
  "format_unknown",
  "seals_missing",
  "chain_broken",
  "seal_changed",
  "seal_older",
  "number_negative",
  "first_seal_declares",
  "change_undeclared",
  "sum_wrong",
  "count_wrong",
  "saved_seal_missing",
  "saved_seal_differs",
  "removed_not_oldest",
  "removed_in_part",
  "day_altered",
  "day_differs",
  "day_rewritten",
  "day_unsealed",
  "days_missing",
  "nothing_verified",
] as const;

/** What is no problem, and should be known. */
export const NOTES = [
  "sealed_late",
  "sealed_again",
  "change_declared",
  "retention_at_work",
  "day_open",
  "days_open",
  "other_days",
  "days_unproven",
  "entries_repeated",
  "tests_dropped",
  "file_empty",
] as const;

export type Problem = typeof PROBLEMS[number];
export type Note = typeof NOTES[number];

export interface Finding<Code = Problem | Note> {
  code: Code;
  day?: string;
  sequence?: number;
  /** The same for people: a sentence. */
  text: string;
}

export interface Findings {
  problems: Finding<Problem>[];
  notes: Finding<Note>[];
}
