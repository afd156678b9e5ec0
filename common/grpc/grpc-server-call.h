// One call on a connection of grpc-server.h, between the handler and the HTTP/2 session. Only
// grpc-server.cc uses it.
#pragma once

#include <kj/map.h>

#include <deque>

#include "common/base/signal.h"
#include "common/grpc/grpc-frame.h"
#include "common/grpc/grpc-server.h"
#include "common/grpc/h2-session.h"

namespace talos::grpc {

// What a call wants of its connection. Nothing here calls back into a call before the loop's next
// turn.
class Carrier {
 public:
  // The headers of the answer; what follows is asked for by fill(), unless they are all.
  virtual void respond(int32_t stream, kj::ArrayPtr<const nghttp2_nv> fields, bool all) = 0;
  // The last of what it sends.
  virtual void conclude(int32_t stream, kj::ArrayPtr<const nghttp2_nv> trailers) = 0;
  virtual void resume(int32_t stream) = 0;  // fill() has something now
  virtual void credit(int32_t stream, size_t bytes) = 0;
  virtual void reset(int32_t stream, uint32_t code) = 0;
  // The promise is to be dropped, not from within itself.
  virtual void drop(kj::Promise<void> promise) = 0;

  kj::Timer& timer;
  GrpcHandler& handler;
  const GrpcLimits limits;
  kj::Own<Budget::Account> account;  // or null
  size_t arriving = 0, queued = 0;   // bytes of all calls

 protected:
  Carrier(kj::Timer& timer, GrpcHandler& handler, const GrpcLimits& limits,
          kj::Own<Budget::Account> account)
      : timer(timer), handler(handler), limits(limits), account(kj::mv(account)) {}
  ~Carrier() noexcept(false) = default;
};

class ServerCall final : public GrpcCall {
 public:
  ServerCall(Carrier& carrier, int32_t stream)
      : carrier(carrier), stream(stream), frames(carrier.limits.message) {}
  ~ServerCall() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(ServerCall);

  // --- for the handler ---
  kj::StringPtr path() const override { return value(":path"); }
  kj::ArrayPtr<const kj::String> metadata(kj::StringPtr name) const override;
  kj::Promise<void> nearDeadline() override;
  kj::Promise<kj::Maybe<kj::Array<kj::byte>>> receive() override;
  void begin() override;
  kj::Promise<void> send(kj::Array<kj::byte> message) override;

  // --- for the session, in the order of a request ---
  // How many bytes that makes by now.
  size_t header(kj::StringPtr name, kj::StringPtr value);
  void headersComplete();                               // starts the handler, or answers
  size_t received(kj::ArrayPtr<const kj::byte> bytes);  // how much credit to give back now
  void endOfMessages();
  size_t fill(kj::ArrayPtr<kj::byte> into);
  // With the answer's last byte: the trailers, unless it has none because it was cut.
  bool complete() const { return finished && out.empty(); }
  kj::Array<nghttp2_nv> trailers();
  // Its stream is no more: nobody is told anything, and the handler's promise is dropped.
  void abandon();
  // Ends it if a message that has begun does not go on. Whether to ask again.
  bool checkProgress();

 private:
  Carrier& carrier;
  const int32_t stream;
  kj::HashMap<kj::String, kj::Vector<kj::String>> fields;
  size_t headerBytes = 0;
  kj::Maybe<kj::TimePoint> until;

  FrameReader frames;
  std::deque<kj::Array<kj::byte>> unread;
  size_t unreadBytes = 0, taken = 0;  // taken: of the message that the handler has now
  size_t withheld = 0;                // credit
  size_t counted = 0;                 // of all that, in carrier.arriving
  kj::Maybe<Budget::Account::Hold> callHold, messageHold;
  kj::Maybe<size_t> cameBefore;  // of the unfinished message, at the last look
  size_t came = 0;
  bool lastReceived = false;

  Outbox out;
  bool begun = false, finished = false;
  kj::String statusCode, statusMessage;
  Signal arrived, drained;
  kj::Promise<void> running = nullptr;

  kj::StringPtr value(kj::StringPtr name) const;
  kj::Maybe<GrpcStatus> objection();
  void start();
  void recount();
  void dropRequest();
  void dropAnswer();
  // `cut`: what waits to be sent is not waited for.
  void finish(GrpcStatus status, bool cut = false);
  void stop(GrpcStatus status);
  void refuse(kj::StringPtr httpStatus, GrpcStatus status);
};

}  // namespace talos::grpc
