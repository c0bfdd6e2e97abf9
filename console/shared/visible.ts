/**
 * Writes control and bidirectional characters as JSON does: "\u202e". Otherwise they would turn or hide what stands
 * around them. Characters that join others, as those of an emoji, stay.
 */
export function visible(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
