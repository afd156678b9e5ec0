// Client end of an HTTP/2 connection for gRPC: nghttp2 over a KJ stream. Used only by
// grpc-client.cc and by tests.
//
// A session exists as long as one of its calls or its creator refers to it. When its stream ends or
// its server breaks the protocol, all calls end with the error and no new call can be started.
#pragma once

#include <kj/async-io.h>
#include <kj/refcount.h>
#include <kj/timer.h>

#include <map>

#include "common/grpc/grpc-client.h"
#include "common/grpc/h2-session.h"

namespace talos::grpc {

class ClientCall;

class ClientSession final : public kj::Refcounted, private H2SessionEvents {
 public:
  ClientSession(kj::Timer& timer, kj::String server, kj::Own<kj::AsyncIoStream> stream,
                ConnectionOptions options = {});
  ~ClientSession() noexcept(false) override;

  // Returns true if the session can take one more call.
  bool usable() const;
  unsigned openCalls() const { return calls.size(); }
  kj::Own<Call> open(kj::StringPtr path, kj::ArrayPtr<const Metadata> metadata,
                     kj::Maybe<kj::Duration> deadline);

 private:
  friend class ClientCall;
  kj::Timer& timer;
  kj::String server;
  kj::Own<kj::AsyncIoStream> stream;
  ConnectionOptions options;
  nghttp2_session* h2 = nullptr;
  std::map<int32_t, ClientCall*> calls;
  kj::Maybe<kj::String> lost;  // error, if the connection was lost
  bool writing = false, monitoring = false;
  kj::TimePoint quietSince;
  kj::Maybe<kj::TimePoint> pinged;  // time of a ping after which nothing was received
  kj::Maybe<kj::TimePoint> lastPing;
  kj::Promise<void> reads = nullptr, writes = nullptr, keepalive = nullptr;

  // --- for calls ---
  void flush();
  void resume(int32_t stream);
  void credit(int32_t stream, size_t bytes);
  void cancel(int32_t stream);
  // Checks that the server is alive, after a call exceeded its deadline.
  void checkAlive();

  kj::Promise<void> readAll();
  kj::Promise<void> writeAll();
  void ping();
  void monitor();
  kj::Promise<void> monitorFor(kj::Duration half);
  void lose(kj::String error, int code = 14);
  void loseBy(const kj::Exception& e);
  bool endedByProtocol();
  ClientCall* find(int32_t id) const;

  // --- H2SessionEvents ---
  bool header(const nghttp2_frame& frame, kj::StringPtr name, kj::StringPtr value) override;
  size_t data(int32_t id, kj::ArrayPtr<const kj::byte> bytes) override;
  void closed(int32_t id, uint32_t code) override;
  kj::Maybe<size_t> fill(int32_t id, kj::ArrayPtr<kj::byte> into, uint32_t& flags) override;
};

}  // namespace talos::grpc
