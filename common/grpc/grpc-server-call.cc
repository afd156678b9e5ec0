#include "common/grpc/grpc-server-call.h"

#include <kj/debug.h>

namespace talos::grpc {
namespace {

// The longest text of a status: a config may have many problems, each a line.
constexpr size_t kMostText = 8192;
constexpr size_t kLeastProgress = 256u << 10;  // GrpcLimits::slow
// The charge for a call (common/wire/budget.cc); its messages are charged in addition if larger.
constexpr size_t kSmall = 16u << 10;

// Cost of an unread message besides its bytes.
constexpr size_t kUnreadCost = 64;

// The charge for an answer shrinks in steps of this size.
constexpr size_t kAnswerStep = 64u << 10;

// The time before the deadline for sending a partial answer: a tenth of the time, at most a second.
constexpr int kPartOfTime = 10;
constexpr auto kMostForAnswer = 1 * kj::SECONDS;

constexpr auto kType = "application/grpc"_kj;

enum : kj::uint {
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kResourceExhausted = 8,
  kUnimplemented = 12
};

}  // namespace

GrpcStatus statusOf(const kj::Exception& e) {
  return {static_cast<kj::uint>(statusOfKind(kindOf(e))), messageOf(e)};
}

ServerCall::~ServerCall() noexcept(false) {
  running = nullptr;
}

// --- the request ---

kj::ArrayPtr<const kj::String> ServerCall::metadata(kj::StringPtr name) const {
  KJ_IF_MAYBE (values, fields.find(name)) return values->asPtr();
  return nullptr;
}

kj::StringPtr ServerCall::value(kj::StringPtr name) const {
  auto values = metadata(name);
  return values.size() == 0 ? ""_kj : values[0];
}

void ServerCall::header(kj::StringPtr name, kj::StringPtr value) {
  headerBytes += name.size() + value.size() + kFieldBytes;
  if (headerBytes > transport.limits.headers) return;  // headersComplete() refuses
  fields.findOrCreate(name, [&]() -> decltype(fields)::Entry { return {kj::str(name), {}}; })
      .add(kj::str(value));
}

void ServerCall::headersComplete() {
  // The charge comes first, as a refused call uses memory too until the client has read its answer.
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                 if (transport.account.get() == nullptr) return;
                 callHold = transport.account->hold(kj::max(kSmall, headerBytes));
               })) {
    fields.clear();  // they are not charged
    return finish(statusOf(*e));
  }
  if (headerBytes > transport.limits.headers) {
    return finish({kResourceExhausted,
                   kj::str("the headers of the call are ", headerBytes, " bytes; at most ",
                           transport.limits.headers, " are accepted")});
  }
  if (value(":method") != "POST") {
    return refuse("405", {kUnimplemented, kj::str("the HTTP method of gRPC calls is POST")});
  }
  if (!isGrpc(value("content-type"))) {
    return refuse("415", {kInvalidArgument, kj::str("content-type: \"", value("content-type"),
                                                    "\" is not a type of gRPC; use ", kType)});
  }
  KJ_IF_MAYBE (status, checkRequest()) return finish(kj::mv(*status));
  start();
}

// Checks the headers of a gRPC request. Returns the status if the call is refused.
kj::Maybe<GrpcStatus> ServerCall::checkRequest() {
  auto encoding = value("grpc-encoding");
  if (encoding.size() > 0 && encoding != "identity") {
    return GrpcStatus{kUnimplemented, kj::str("grpc-encoding: \"", encoding,
                                              "\" is not supported; use \"identity\"")};
  }
  auto timeout = value("grpc-timeout");
  if (timeout.size() == 0) return nullptr;
  KJ_IF_MAYBE (t, parseTimeout(timeout)) {
    until = transport.timer.now() + *t;
    return nullptr;
  }
  return GrpcStatus{kInvalidArgument,
                    kj::str("grpc-timeout: \"", timeout,
                            "\" is not a time; use up to eight digits and one of H M S m u n")};
}

kj::Promise<void> ServerCall::nearDeadline() {
  KJ_IF_MAYBE (d, until) {
    auto left = *d - transport.timer.now();
    return transport.timer.atTime(*d - kj::min(left / kPartOfTime, kMostForAnswer));
  }
  return kj::NEVER_DONE;
}

void ServerCall::start() {
  auto status = kj::evalLater([this]() {
                  return transport.handler.call(*this);
                }).catch_([](kj::Exception&& e) { return statusOf(e); });
  KJ_IF_MAYBE (d, until) {
    auto late = transport.timer.atTime(*d).then([this]() {
      finish({kDeadlineExceeded, kj::str("no answer within the time of the call")}, true);
      return GrpcStatus();
    });
    status = status.exclusiveJoin(kj::mv(late));
  }
  running =
      status.then([this](GrpcStatus status) { finish(kj::mv(status)); }).eagerlyEvaluate(nullptr);
}

size_t ServerCall::received(kj::ArrayPtr<const kj::byte> bytes) {
  if (finished) return bytes.size();
  receivedBytes += bytes.size();
  auto wrong = frames.feed(bytes, [this](kj::Array<kj::byte> message) {
    unreadBytes += message.size() + kUnreadCost;
    unread.push_back(kj::mv(message));
    receivedBefore = nullptr;
  });
  KJ_IF_MAYBE (w, wrong) {
    stop({frames.announced() > transport.limits.message ? kResourceExhausted : kInvalidArgument,
          kj::mv(*w)});
    return bytes.size();
  }
  recount();
  if (finished) return bytes.size();
  arrived.raise();
  // A message that exceeds the window continues; the one after it waits for the handler.
  if (unread.empty()) return bytes.size();
  withheld += bytes.size();
  return 0;
}

// Updates the charge for the client's messages.
void ServerCall::recount() {
  auto now = unreadBytes + taken + frames.announced();
  if (now == counted) return;
  transport.arriving += now - counted;
  counted = now;
  messageHold = nullptr;
  if (transport.arriving > transport.limits.arriving) {
    return stop({kResourceExhausted, kj::str("the requests on this connection are more than ",
                                             transport.limits.arriving, " bytes")});
  }
  if (now <= kSmall || transport.account.get() == nullptr) return;
  KJ_IF_MAYBE (e,
               kj::runCatchingExceptions([&]() { messageHold = transport.account->hold(now); })) {
    stop(statusOf(*e));
  }
}

void ServerCall::endOfMessages() {
  lastReceived = true;
  if (!finished && !frames.atBoundary()) {
    return stop({kInvalidArgument, kj::str("the request ends within a message")});
  }
  arrived.raise();
}

bool ServerCall::checkProgress() {
  if (finished || frames.atBoundary()) {
    receivedBefore = nullptr;
    return false;
  }
  KJ_IF_MAYBE (before, receivedBefore) {
    // Only if the client could have sent: it has no credit while the handler does not read.
    if (withheld == 0 && receivedBytes - *before < kLeastProgress) {
      stop({kDeadlineExceeded, kj::str("a message of the request made no progress")});
      return false;
    }
  }
  receivedBefore = receivedBytes;
  return true;
}

kj::Promise<kj::Maybe<kj::Array<kj::byte>>> ServerCall::receive() {
  taken = 0;
  recount();
  while (unread.empty() && !lastReceived) co_await arrived.next();
  if (unread.empty()) co_return nullptr;
  auto message = kj::mv(unread.front());
  unread.pop_front();
  unreadBytes -= message.size() + kUnreadCost;
  taken = message.size();
  if (unread.empty() && withheld > 0) {
    transport.credit(stream, withheld);
    withheld = 0;
  }
  co_return kj::mv(message);
}

// --- the answer ---

void ServerCall::begin() {
  if (started || finished) return;
  started = true;
  nghttp2_nv answer[] = {field(":status", "200"), field("content-type", kType)};
  transport.respond(stream, answer, false);
}

kj::Promise<void> ServerCall::send(kj::Array<kj::byte> message) {
  if (finished) co_await kj::Promise<void>(kj::NEVER_DONE);  // the handler is about to be dropped
  auto size = message.size() + kFrameHeader;
  auto before = out.memory();
  if (transport.queued + size > transport.limits.mostQueued) {
    fail(ErrorKind::kResourceExhausted,
         kj::str("the client does not read: ", transport.queued,
                 " bytes of answers wait to be sent; at most ", transport.limits.mostQueued));
  }
  chargeAnswer(before + size);
  out.add(frame(message));
  message = nullptr;
  transport.queued += out.memory() - before;
  begin();
  transport.resume(stream);
  while (out.size() > transport.limits.queued) co_await drained.next();
}

size_t ServerCall::fill(kj::ArrayPtr<kj::byte> into) {
  auto before = out.memory();
  auto done = out.fill(into);
  transport.queued -= before - out.memory();
  if (out.memory() + kAnswerStep <= answerHeld) chargeAnswer(out.memory());
  if (out.size() <= transport.limits.queued) drained.raise();
  return done;
}

// Charges the account for this many bytes that wait to be sent; few are part of the call. Throws
// ResourceExhausted when it cannot grow.
void ServerCall::chargeAnswer(size_t bytes) {
  if (bytes <= kSmall || transport.account.get() == nullptr) bytes = 0;
  if (bytes < answerHeld) {
    answerHolds.clear();
    answerHeld = 0;
  }
  if (bytes == answerHeld) return;
  answerHolds.add(transport.account->hold(bytes - answerHeld));
  answerHeld = bytes;
}

void ServerCall::finish(GrpcStatus status, bool discard) {
  if (finished) return;
  finished = true;
  dropRequest();
  if (withheld > 0) transport.credit(stream, withheld);
  withheld = 0;
  if (discard) {
    bool within = out.midFrame();
    dropAnswer();
    if (within) return transport.reset(stream, NGHTTP2_CANCEL);
  }
  statusCode = kj::str(status.code);
  statusMessage = statusHeader(status.message, kMostText);
  if (started) {
    // Without data before them, trailers do not wait for flow control.
    if (out.empty()) return transport.conclude(stream, trailers());
    return transport.resume(stream);
  }
  kj::Vector<nghttp2_nv> all;
  all.add(field(":status", "200"));
  all.add(field("content-type", kType));
  all.addAll(trailers());
  transport.respond(stream, all, true);
}

kj::Array<nghttp2_nv> ServerCall::trailers() {
  kj::Vector<nghttp2_nv> all;
  all.add(field("grpc-status", statusCode));
  if (statusMessage.size() > 0) all.add(field("grpc-message", statusMessage));
  return all.releaseAsArray();
}

void ServerCall::dropRequest() {
  unread.clear();
  unreadBytes = taken = 0;
  transport.arriving -= counted;
  counted = 0;
  messageHold = nullptr;
  frames = FrameReader(transport.limits.message);
}

void ServerCall::dropAnswer() {
  transport.queued -= out.memory();
  out.clear();
  chargeAnswer(0);
}

// Answers an HTTP request that is not gRPC.
void ServerCall::refuse(kj::StringPtr httpStatus, GrpcStatus status) {
  finished = true;
  statusCode = kj::str(status.code);
  statusMessage = statusHeader(status.message, kMostText);
  kj::Vector<nghttp2_nv> all;
  all.add(field(":status", httpStatus));
  all.add(field("content-type", kType));
  all.addAll(trailers());
  transport.respond(stream, all, true);
}

// Ends the call from the session's side: the handler does not continue. May be called from within
// it.
void ServerCall::stop(GrpcStatus status) {
  finish(kj::mv(status), true);
  abandon();
}

void ServerCall::abandon() {
  finished = true;
  dropRequest();
  dropAnswer();
  transport.drop(kj::mv(running));
  running = kj::READY_NOW;
}

}  // namespace talos::grpc
