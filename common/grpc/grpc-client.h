// A client of gRPC on one server: unary calls and streams in both directions, over HTTP/2 on
// any stream that `dial` makes (a Unix socket, TLS), inside KJ's loop.
//
// Owns one connection, dialled when a call needs it and again when it was lost. Calls that are open
// on a lost connection reject with Unavailable; nothing is retried automatically, because only the
// caller knows what may be done twice. Each call has a deadline, which is sent to the server; a
// call that is dropped, or exceeds its deadline, is reset, so the server stops working for it.
//
// The server's bytes are foreign. The memory that they can use is bounded by the constants below; a
// stream whose messages are not read gets no more flow-control window. Nothing survives a crash.
#pragma once

#include <google/protobuf/message_lite.h>
#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/timer.h>

#include <string>

#include "common/base/error.h"

namespace talos::grpc {

// The largest message that containerd sends and accepts (its max_send_message_size).
constexpr size_t kMostMessage = 16u << 20;
// Open at once: a node has some hundred containers, each with one call that waits for its end.
constexpr unsigned kMostCalls = 512;
// Unread messages of one stream; beyond that it gets no credit.
constexpr size_t kMostUnread = 1u << 20;
// The longest text of a status that is kept: enough for a message and a stack trace.
constexpr size_t kMostStatus = 8192;

struct Metadata {
  kj::StringPtr name, value;  // lower case, not binary
};

// Options of a connection: what its requests name, and its keepalive.
struct ConnectionOptions {
  kj::StringPtr scheme = "http"_kj;  // "https" on TLS
  kj::String authority = kj::str("localhost");
  // A server that has answered nothing for half of this, while a call is open or after one exceeded
  // its deadline, gets a ping; after the other half the connection counts as lost. Without it, only
  // TCP detects a server whose machine has died, after minutes. At least 12 s for a server written
  // in Go, which closes connections that ping more often than every 5 s.
  kj::Maybe<kj::Duration> silence = nullptr;
};

// One call. Dropping it cancels it.
class Call {
 public:
  virtual ~Call() noexcept(false) = default;

  // Resolves when the bytes have been taken by HTTP/2's flow control. One at a time.
  virtual kj::Promise<void> write(kj::Array<const kj::byte> message) = 0;
  // No more messages. Called once.
  virtual void endOfMessages() = 0;
  // The next message; none at the end, if its status is OK. Rejects with the status otherwise, with
  // DeadlineExceeded, or with Unavailable when the connection was lost. One at a time.
  virtual kj::Promise<kj::Maybe<kj::Array<kj::byte>>> read() = 0;
};

class Client {
 public:
  using Dial = kj::Function<kj::Promise<kj::Own<kj::AsyncIoStream>>()>;
  // `server` is the name in errors: "containerd".
  Client(kj::Timer& timer, kj::String server, Dial dial, ConnectionOptions options = {});
  ~Client() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Client);

  // `path` is /package.Service/Method. Without a deadline the call runs until it is dropped.
  kj::Promise<kj::Own<Call>> open(kj::StringPtr path, kj::ArrayPtr<const Metadata> metadata,
                                  kj::Maybe<kj::Duration> deadline);
  // One message each way.
  kj::Promise<kj::Array<kj::byte>> unary(kj::StringPtr path, kj::ArrayPtr<const Metadata> metadata,
                                         kj::Maybe<kj::Duration> deadline,
                                         kj::Array<const kj::byte> message);

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

// --- messages of protobuf ---

// InvalidArgument when it is longer than any server takes.
kj::Array<kj::byte> encode(const google::protobuf::MessageLite& message);
// Internal, naming the method, when the bytes are not a message of this type.
void decode(kj::StringPtr path, kj::ArrayPtr<const kj::byte> bytes,
            google::protobuf::MessageLite& into);

template <typename Response>
kj::Promise<Response> call(Client& client, kj::StringPtr path,
                           kj::ArrayPtr<const Metadata> metadata, kj::Maybe<kj::Duration> deadline,
                           const google::protobuf::MessageLite& request) {
  return client.unary(path, metadata, deadline, encode(request))
      .then([path](kj::Array<kj::byte> bytes) {
        Response response;
        decode(path, bytes, response);
        return response;
      });
}

}  // namespace talos::grpc
