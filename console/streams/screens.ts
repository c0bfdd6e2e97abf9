// The screens of streams, in one script that is loaded when it is asked for.

export { OneStream } from "./stream.tsx";
export { ChangeStream, NewStream } from "./stream_form.tsx";
export { Streams } from "./streams.tsx";
