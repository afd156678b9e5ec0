// A gRPC server for one connection: HTTP/2 over any stream, inside KJ's loop.
//
// Owns the stream, its HTTP/2 session and the calls on it. A call is a promise of the handler; it
// is dropped when the client resets it, when its deadline expires (the session then answers
// DEADLINE_EXCEEDED) and when the connection ends. Requests that are not valid gRPC (another
// content type, a deadline that does not parse, a compressed message) are refused without the
// handler.
//
// The client's bytes are foreign. A connection keeps at most: the headers of the open calls
// (GrpcLimits::headers of each), request messages that the handler has not taken and the announced
// size of unfinished ones (`arriving`, of all calls), answers that the client does not read
// (`mostQueued`, of all calls), 4 KiB each for the two HPACK tables, and some 50 KiB of buffers.
// With an account (common/wire/budget.h) a call is charged like a call of Cap'n Proto; so are its
// messages, and each answer from when it is queued until it is freed. All connections of the
// account share its turns (common/wire/budget.h). Frames without data (HEADERS, PING, SETTINGS,
// PRIORITY, WINDOW_UPDATE, empty DATA, resets of either side) have a budget that data refills. A
// client that exhausts this budget loses the connection; so does a client that sends a header
// block, also of trailers, that unpacks to four times the limit of headers, or that reads nothing
// of a large queue. No state survives a crash.
#pragma once

#include <kj/async-io.h>
#include <kj/timer.h>

#include "common/base/error.h"
#include "common/wire/budget.h"

namespace talos::grpc {

struct GrpcStatus {
  kj::uint code = 0;  // gRPC's number; 0 is OK
  kj::String message;
};
// Returns the status of an exception; its kinds are those of gRPC (Conflict is 9,
// FAILED_PRECONDITION).
GrpcStatus statusOf(const kj::Exception& e);

// A call. Owned by the session; valid as long as the promise of GrpcHandler::call().
class GrpcCall {
 public:
  virtual kj::StringPtr path() const = 0;  // "/machine.MachineService/Version"
  // Returns the values of a header of the request, in order; names are in lower case.
  virtual kj::ArrayPtr<const kj::String> metadata(kj::StringPtr name) const = 0;
  // Resolves shortly before the call's deadline (a tenth of the time that is left, at most a
  // second), so that a partial answer can be sent; never if the call has no deadline.
  virtual kj::Promise<void> nearDeadline() = 0;

  // Returns the next message; nullptr once the client sends no more. One call at a time.
  virtual kj::Promise<kj::Maybe<kj::Array<kj::byte>>> receive() = 0;
  // Sends the headers of the answer, which are otherwise sent with its first message or its status:
  // for a stream that may be silent at first.
  virtual void begin() = 0;
  // Resolves when little of this call's answer waits to be sent, so that a handler that awaits it
  // is as fast as its client. Any number of calls at a time, sent in order. Fails with
  // ResourceExhausted if too much waits on the connection: the message is not sent.
  virtual kj::Promise<void> send(kj::Array<kj::byte> message) = 0;

 protected:
  ~GrpcCall() noexcept(false) = default;
};

class GrpcHandler {
 public:
  virtual ~GrpcHandler() noexcept(false) = default;
  // Returns the status, which is sent after the messages. A rejected promise is answered with
  // statusOf(). May throw.
  virtual kj::Promise<GrpcStatus> call(GrpcCall& call) = 0;
};

struct GrpcLimits {
  unsigned calls = 1024;          // open at once
  size_t message = 8u << 20;      // bytes of a request message
  size_t headers = 32u << 10;     // of a call, as HTTP/2 counts: with 32 for each field
  size_t arriving = 16u << 20;    // for all calls
  size_t queued = 64u << 10;      // for one call: then send() waits
  size_t mostQueued = 32u << 20;  // for all calls: then send() fails
  size_t stuckQueue = 8u << 20;   // for all calls: the client must read some of it within `stuck`
  kj::Duration stuck = 10 * kj::SECONDS;
  kj::Duration slow = 30 * kj::SECONDS;  // an unfinished message must grow by 256 KiB in this time
};

// Serves until the connection has ended: resolves with the error, if the client did not just
// disconnect. When `stop` resolves, the client gets a GOAWAY, its calls are answered, and the
// connection is closed. `handler` must outlive the promise.
kj::Promise<kj::Maybe<kj::String>> serveGrpc(kj::Timer& timer, kj::Own<kj::AsyncIoStream> stream,
                                             GrpcHandler& handler, GrpcLimits limits = {},
                                             kj::Promise<void> stop = kj::NEVER_DONE,
                                             kj::Own<Budget::Account> account = {});

}  // namespace talos::grpc
