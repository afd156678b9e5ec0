// A client of gRPC on one server: unary calls and streams in both directions, over HTTP/2 on any
// stream that `dial` makes (a Unix socket, TLS), inside KJ's loop.
//
// Owns one connection, dialled when a call needs it and again after it was lost. Calls that are
// open on a lost connection reject with Unavailable. No call is retried, because only the caller
// knows which calls may take effect twice. Each call has a deadline, which is sent to the server; a
// call that is dropped, or exceeds its deadline, is reset, so that the server stops working for it.
//
// The server's bytes are foreign. The constants below bound the memory that they can use; a stream
// whose messages are not read gets no more flow-control window. No state survives a crash.
#pragma once

#include <google/protobuf/message_lite.h>
#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/timer.h>

#include <string>

#include "common/base/error.h"

namespace talos::grpc {

// Largest message that containerd sends and accepts (its max_send_message_size).
constexpr size_t kMostMessage = 16u << 20;
// Calls that are open at once: a node has some hundred containers, each with one call that waits
// for its end.
constexpr unsigned kMostCalls = 512;
// Limit of the unread messages of one stream; beyond it the stream gets no credit.
constexpr size_t kMostUnread = 1u << 20;
// Longest text of a status that is kept: enough for a message and a stack trace.
constexpr size_t kMostStatus = 8192;

struct Metadata {
  kj::StringPtr name, value;  // lower case, not binary
};

// Options of a connection: the names in its requests, and its keepalive.
struct ConnectionOptions {
  kj::StringPtr scheme = "http"_kj;  // "https" on TLS
  kj::String authority = kj::str("localhost");
  // Time after which a silent server's connection counts as lost: a server that sends nothing for
  // half of this time, while a call is open or after a call exceeded its deadline, gets a ping.
  // Without this option, only TCP detects a server whose machine has died, after minutes. At least
  // 12 s for a server written in Go, which closes connections that ping more often than every 5 s.
  kj::Maybe<kj::Duration> silence = nullptr;
  size_t mostAnswer = kMostMessage;  // largest message that is accepted
};

// A call. Dropping it cancels it.
class Call {
 public:
  virtual ~Call() noexcept(false) = default;

  // Resolves when HTTP/2's flow control has accepted the bytes. One call at a time.
  virtual kj::Promise<void> write(kj::Array<const kj::byte> message) = 0;
  // Ends the client's messages. Called once.
  virtual void endOfMessages() = 0;
  // Returns the next message; nullptr at the end, if its status is OK. Otherwise rejects with the
  // status, with DeadlineExceeded, or with Unavailable if the connection was lost. One call at a
  // time.
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
  // Sends one message and returns one message.
  kj::Promise<kj::Array<kj::byte>> unary(kj::StringPtr path, kj::ArrayPtr<const Metadata> metadata,
                                         kj::Maybe<kj::Duration> deadline,
                                         kj::Array<const kj::byte> message);

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

// --- messages of protobuf ---

// Throws InvalidArgument if the message is longer than any server accepts.
kj::Array<kj::byte> encode(const google::protobuf::MessageLite& message);
// Throws Internal, naming the method, if the bytes are not a message of this type.
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
