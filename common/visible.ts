/**
 * Writes control characters, those that turn or hide text, and line breaks as JSON escapes them: \u009b. Otherwise a
 * terminal obeys them, and people read something else than what was written. The two that join others, as in an emoji,
 * stay.
 */
export function visible(text: string): string {
  return text.replace(
    /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => character.replace(/[^]/g, escaped),
  );
}

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
