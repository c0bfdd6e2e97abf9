// The screens of keys and streams, in one script, which is loaded when it is asked for. What two scripts share
// would become a third, and be taken out of the log's screen, which would weigh more.

export { Keys } from "../keys/keys.tsx";
export { OneStream } from "../streams/stream.tsx";
export { ChangeStream, NewStream } from "../streams/stream_form.tsx";
export { Streams } from "../streams/streams.tsx";
