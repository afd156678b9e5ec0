// A client of gRPC on one server: unary calls and streams in both directions, over HTTP/2 on
// whatever stream `dial` makes (a Unix socket, TLS), inside KJ's loop.
//
// Owns one connection, dialled when a call needs it and again when it was lost. What is open on a
// connection that is lost rejects with Unavailable; nothing is repeated by itself, because only the
// caller knows what may be done twice. Each call has a deadline, which the server is told; a call
// that is dropped, or is over its deadline, is reset, so the server stops working for it.
//
// The server's bytes are foreign. What it can make this side keep is bounded: the numbers are
// below; a stream whose messages nobody reads gets no more of its window. Nothing is kept beyond a
// crash.
#pragma once

#include <google/protobuf/message_lite.h>
#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/timer.h>

#include <string>

#include "common/base/error.h"

namespace talos::grpc {

// What containerd itself sends and accepts at most (its max_send_message_size).
constexpr size_t kMostMessage = 16u << 20;
// Open at once: a node has some hundred containers, each with one call that waits for its end.
constexpr unsigned kMostCalls = 512;
// Messages of one stream that nobody has read yet; more get no credit.
constexpr size_t kMostUnread = 1u << 20;
// Of the text of a status: what a person reads, and a stack trace more.
constexpr size_t kMostStatus = 8192;

struct Metadata {
  kj::StringPtr name, value;  // lower case, not binary
};

// What a connection says of itself, and how long it may be silent.
struct Wire {
  kj::StringPtr scheme = "http"_kj;  // "https" on TLS
  kj::String authority = kj::str("localhost");
  // A server that has answered nothing for half of this, while a call is open or after one was over
  // its deadline, gets a ping; after the other half the connection is lost. Without it a server
  // whose machine has died is noticed by TCP alone, after minutes. At least 12 s for a server
  // written in Go: one that is pinged more often than every 5 s ends the connection.
  kj::Maybe<kj::Duration> silence;
};

// One call. Dropping it ends it.
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
  // `server` is what errors call it: "containerd".
  Client(kj::Timer& timer, kj::String server, Dial dial, Wire wire = {});
  ~Client() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Client);

  // `path` is /package.Service/Method. Without a deadline it is one that runs until it is dropped.
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
