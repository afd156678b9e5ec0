// State of one call on a connection of grpc-server.h, between the handler and the HTTP/2 session.
// Used only by grpc-server.cc.
#pragma once

#include <kj/map.h>

#include <deque>

#include "common/base/signal.h"
#include "common/grpc/grpc-frame.h"
#include "common/grpc/grpc-server.h"
#include "common/grpc/h2-session.h"

namespace talos::grpc {

constexpr size_t kFieldBytes = 32;  // HTTP/2's overhead for each header field

// Operations that a call needs from its connection. None of them calls back into a call before the
// loop's next turn.
class CallTransport {
 public:
  // Sends the headers of the answer; unless `all`, fill() is called for its data.
  virtual void respond(int32_t stream, kj::ArrayPtr<const nghttp2_nv> fields, bool all) = 0;
  // Sends the trailers, which end the answer.
  virtual void conclude(int32_t stream, kj::ArrayPtr<const nghttp2_nv> trailers) = 0;
  virtual void resume(int32_t stream) = 0;  // fill() has data now
  virtual void credit(int32_t stream, size_t bytes) = 0;
  virtual void reset(int32_t stream, uint32_t code) = 0;
  // Drops the promise later, not from within itself.
  virtual void drop(kj::Promise<void> promise) = 0;

  kj::Timer& timer;
  GrpcHandler& handler;
  const GrpcLimits limits;
  kj::Own<Budget::Account> account;  // or null
  size_t arriving = 0, queued = 0;   // bytes of all calls: SendQueue::memory()

 protected:
  CallTransport(kj::Timer& timer, GrpcHandler& handler, const GrpcLimits& limits,
                kj::Own<Budget::Account> account)
      : timer(timer), handler(handler), limits(limits), account(kj::mv(account)) {}
  ~CallTransport() noexcept(false) = default;
};

class ServerCall final : public GrpcCall {
 public:
  ServerCall(CallTransport& transport, int32_t stream)
      : transport(transport), stream(stream), frames(transport.limits.message) {}
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
  void header(kj::StringPtr name, kj::StringPtr value);
  void headersComplete();                               // starts the handler, or refuses the call
  size_t received(kj::ArrayPtr<const kj::byte> bytes);  // returns the credit to give back now
  void endOfMessages();
  size_t fill(kj::ArrayPtr<kj::byte> into);
  // Returns true if all data of the answer was sent, so that the trailers follow.
  bool complete() const { return finished && out.empty(); }
  kj::Array<nghttp2_nv> trailers();
  // Called when the stream is closed: sends nothing more and drops the handler's promise.
  void abandon();
  // Ends the call if an unfinished message made no progress. Returns true if the caller has to
  // check again.
  bool checkProgress();

 private:
  CallTransport& transport;
  const int32_t stream;
  kj::HashMap<kj::String, kj::Vector<kj::String>> fields;
  size_t headerBytes = 0;
  kj::Maybe<kj::TimePoint> until;

  FrameReader frames;
  std::deque<kj::Array<kj::byte>> unread;
  size_t unreadBytes = 0, taken = 0;  // taken: size of the message that the handler has now
  size_t withheld = 0;                // credit not given back yet
  size_t counted = 0;                 // part of these in transport.arriving
  kj::Maybe<Budget::Account::Hold> callHold, messageHold;
  kj::Maybe<size_t> receivedBefore;  // bytes of the unfinished message at the last check
  size_t receivedBytes = 0;
  bool lastReceived = false;

  SendQueue out;
  kj::Vector<Budget::Account::Hold> answerHolds;  // one for each time that the answer grew
  size_t answerHeld = 0;
  bool started = false, finished = false;
  kj::String statusCode, statusMessage;
  Signal arrived, drained;
  kj::Promise<void> running = nullptr;

  kj::StringPtr value(kj::StringPtr name) const;
  kj::Maybe<GrpcStatus> checkRequest();
  void start();
  void recount();
  void chargeAnswer(size_t bytes);
  void dropRequest();
  void dropAnswer();
  // `discard`: data that waits to be sent is dropped.
  void finish(GrpcStatus status, bool discard = false);
  void stop(GrpcStatus status);
  void refuse(kj::StringPtr httpStatus, GrpcStatus status);
};

}  // namespace talos::grpc
