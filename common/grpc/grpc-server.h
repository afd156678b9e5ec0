// A server of gRPC on one connection: HTTP/2 over whatever stream it is given, inside KJ's loop.
//
// Owns the stream, its HTTP/2 session and the calls on it. A call is a promise of the handler; it
// is dropped when the client resets it, when its deadline is over and when the connection ends, and
// the client is told DEADLINE_EXCEEDED by the session itself. What is not a call of gRPC (another
// content type, a deadline that is none, a compressed message) is answered without the handler.
//
// The client's bytes are foreign. A connection keeps at most: the headers of the calls that are
// open (GrpcLimits::headers of each), request messages that the handler has not taken and what an
// unfinished one announces (`arriving`, of all calls), answers that the client does not read
// (`mostQueued`, of all calls), 4 KiB each for the two HPACK tables, and some 50 KiB of buffers.
// With an account (common/wire/budget.h) a call counts as one of Cap'n Proto does, and so do its
// messages and what is queued. Frames that carry nothing (PING, SETTINGS, PRIORITY, WINDOW_UPDATE,
// empty DATA, resets of either side) have a budget that data fills again; who is over it loses the
// connection, and so does who sends headers that unpack to four times their limit, and who takes
// nothing of a lot that waits to be sent. Nothing is kept beyond a crash.
#pragma once

#include <kj/async-io.h>
#include <kj/timer.h>

#include "common/base/error.h"
#include "common/wire/budget.h"

namespace talos::grpc {

struct GrpcStatus {
  kj::uint code = 0;  // as gRPC numbers them; 0 is OK
  kj::String message;
};
// Of an exception of ours; the kinds are those of gRPC (Conflict is 9, FAILED_PRECONDITION).
GrpcStatus statusOf(const kj::Exception& e);

// One call. The session's; valid as long as the promise of GrpcHandler::call().
class GrpcCall {
 public:
  virtual kj::StringPtr path() const = 0;  // "/machine.MachineService/Version"
  // The values of a header of the request, in order; names are in lower case.
  virtual kj::ArrayPtr<const kj::String> metadata(kj::StringPtr name) const = 0;
  // Resolves a little before the call's deadline (a tenth of the time that is left, at most a
  // second), for who has a part of the answer by then; never if it has none.
  virtual kj::Promise<void> nearDeadline() = 0;

  // The next message; none once the client sends no more. One at a time.
  virtual kj::Promise<kj::Maybe<kj::Array<kj::byte>>> receive() = 0;
  // Sends the headers of the answer, which otherwise go with its first message or its status: for
  // a stream that may be silent at first.
  virtual void begin() = 0;
  // Resolves when little of this call's answer waits to be sent, so that who waits for it goes as
  // fast as the client reads. Any number at a time, sent in order. ResourceExhausted when too much
  // waits on the connection: the message is not sent.
  virtual kj::Promise<void> send(kj::Array<kj::byte> message) = 0;

 protected:
  ~GrpcCall() noexcept(false) = default;
};

class GrpcHandler {
 public:
  virtual ~GrpcHandler() noexcept(false) = default;
  // The status follows whatever was sent. A rejected promise is answered with statusOf(). May
  // throw.
  virtual kj::Promise<GrpcStatus> call(GrpcCall& call) = 0;
};

struct GrpcLimits {
  unsigned calls = 1024;          // open at once
  size_t message = 8u << 20;      // of a request
  size_t headers = 32u << 10;     // of a call, as HTTP/2 counts: 32 for each field besides
  size_t arriving = 16u << 20;    // of all calls
  size_t queued = 64u << 10;      // of one call: then send() waits
  size_t mostQueued = 32u << 20;  // of all calls: then send() fails
  size_t stuckQueue = 8u << 20;   // of all calls: the client takes of it in `stuck`
  kj::Duration stuck = 10 * kj::SECONDS;
  kj::Duration slow = 30 * kj::SECONDS;  // a message that has begun goes on by 256 KiB in this time
};

// Serves until the connection has ended: resolves with the reason, if the client did not simply go.
// When `stop` resolves the client is told to go elsewhere (GOAWAY), what it has asked is answered,
// and the connection ends. `handler` lives longer.
kj::Promise<kj::Maybe<kj::String>> serveGrpc(kj::Timer& timer, kj::Own<kj::AsyncIoStream> stream,
                                             GrpcHandler& handler, GrpcLimits limits = {},
                                             kj::Promise<void> stop = kj::NEVER_DONE,
                                             kj::Own<Budget::Account> account = {});

}  // namespace talos::grpc
