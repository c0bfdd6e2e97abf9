import { type ChangeEvent, useEffect, useRef } from "react";

/** A field that the address follows as one types. If the field waited for the address, its caret would jump. */
export function useSearchField(
  search: string | undefined,
  onChange: (search: string | undefined) => void,
) {
  const ref = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (ref.current && ref.current !== document.activeElement) ref.current.value = search ?? "";
  }, [search]);
  return {
    ref,
    defaultValue: search,
    onChange: ({ currentTarget: { value } }: ChangeEvent<HTMLInputElement>) =>
      onChange(value || undefined),
  };
}
