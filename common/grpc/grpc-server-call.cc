#include "common/grpc/grpc-server-call.h"

#include <kj/debug.h>

namespace talos::grpc {
namespace {

// Of the text of a status: a config may have many problems, each a line.
constexpr size_t kMostText = 8192;
constexpr size_t kLeastProgress = 256u << 10;  // GrpcLimits::slow
constexpr size_t kFieldBytes = 32;             // what HTTP/2 counts for each besides its text
// What a call counts for by itself (common/wire/budget.cc); its messages count besides if longer.
constexpr size_t kSmall = 16u << 10;

// What an unread message costs besides its bytes, which may be none.
constexpr size_t kUnreadCost = 64;

// Before the deadline, for what there is of an answer: a part of the time, and what is enough.
constexpr int kOfTheTime = 10;
constexpr auto kForTheAnswer = 1 * kj::SECONDS;

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

size_t ServerCall::header(kj::StringPtr name, kj::StringPtr value) {
  headerBytes += name.size() + value.size() + kFieldBytes;
  if (headerBytes > carrier.limits.headers) return headerBytes;  // headersComplete() tells
  fields.findOrCreate(name, [&]() -> decltype(fields)::Entry { return {kj::str(name), {}}; })
      .add(kj::str(value));
  return headerBytes;
}

void ServerCall::headersComplete() {
  // First of all: what is refused stays, with its answer, until the client has read that.
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                 if (carrier.account.get() == nullptr) return;
                 callHold = carrier.account->hold(kj::max(kSmall, headerBytes));
               })) {
    fields.clear();  // nobody pays for them
    return finish(statusOf(*e));
  }
  if (headerBytes > carrier.limits.headers) {
    return finish(
        {kResourceExhausted, kj::str("the headers of the call are ", headerBytes,
                                     " bytes; at most ", carrier.limits.headers, " are accepted")});
  }
  if (value(":method") != "POST") {
    return refuse("405", {kUnimplemented, kj::str("calls of gRPC have the method POST")});
  }
  if (!isGrpc(value("content-type"))) {
    return refuse("415", {kInvalidArgument, kj::str("content-type: \"", value("content-type"),
                                                    "\" is not a type of gRPC; use ", kType)});
  }
  KJ_IF_MAYBE (status, objection()) return finish(kj::mv(*status));
  start();
}

// What is wrong with a request of gRPC before anybody looks at what it asks.
kj::Maybe<GrpcStatus> ServerCall::objection() {
  auto encoding = value("grpc-encoding");
  if (encoding.size() > 0 && encoding != "identity") {
    return GrpcStatus{kUnimplemented, kj::str("grpc-encoding: \"", encoding,
                                              "\" is not supported; use \"identity\"")};
  }
  auto timeout = value("grpc-timeout");
  if (timeout.size() == 0) return nullptr;
  KJ_IF_MAYBE (t, parseTimeout(timeout)) {
    until = carrier.timer.now() + *t;
    return nullptr;
  }
  return GrpcStatus{kInvalidArgument,
                    kj::str("grpc-timeout: \"", timeout,
                            "\" is not a time; use up to eight digits and one of H M S m u n")};
}

kj::Promise<void> ServerCall::nearDeadline() {
  KJ_IF_MAYBE (d, until) {
    auto left = *d - carrier.timer.now();
    return carrier.timer.atTime(*d - kj::min(left / kOfTheTime, kForTheAnswer));
  }
  return kj::NEVER_DONE;
}

void ServerCall::start() {
  auto status = kj::evalLater([this]() {
                  return carrier.handler.call(*this);
                }).catch_([](kj::Exception&& e) { return statusOf(e); });
  KJ_IF_MAYBE (d, until) {
    auto late = carrier.timer.atTime(*d).then([this]() {
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
  came += bytes.size();
  auto wrong = frames.feed(bytes, [this](kj::Array<kj::byte> message) {
    unreadBytes += message.size() + kUnreadCost;
    unread.push_back(kj::mv(message));
    cameBefore = nullptr;
  });
  KJ_IF_MAYBE (w, wrong) {
    stop({frames.announced() > carrier.limits.message ? kResourceExhausted : kInvalidArgument,
          kj::mv(*w)});
    return bytes.size();
  }
  recount();
  if (finished) return bytes.size();
  arrived.raise();
  // A message that is longer than the window gets on; the one after it waits for the handler.
  if (unread.empty()) return bytes.size();
  withheld += bytes.size();
  return 0;
}

// What it keeps of the client's messages has changed.
void ServerCall::recount() {
  auto now = unreadBytes + taken + frames.announced();
  if (now == counted) return;
  carrier.arriving += now - counted;
  counted = now;
  messageHold = nullptr;
  if (carrier.arriving > carrier.limits.arriving) {
    return stop({kResourceExhausted, kj::str("the requests on this connection are more than ",
                                             carrier.limits.arriving, " bytes")});
  }
  if (now <= kSmall || carrier.account.get() == nullptr) return;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { messageHold = carrier.account->hold(now); })) {
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
    cameBefore = nullptr;
    return false;
  }
  KJ_IF_MAYBE (before, cameBefore) {
    // Only what the client could have sent: it has no credit while the handler does not read.
    if (withheld == 0 && came - *before < kLeastProgress) {
      stop({kDeadlineExceeded, kj::str("a message of the request does not go on")});
      return false;
    }
  }
  cameBefore = came;
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
    carrier.credit(stream, withheld);
    withheld = 0;
  }
  co_return kj::mv(message);
}

// --- the answer ---

void ServerCall::begin() {
  if (begun || finished) return;
  begun = true;
  nghttp2_nv answer[] = {field(":status", "200"), field("content-type", kType)};
  carrier.respond(stream, answer, false);
}

kj::Promise<void> ServerCall::send(kj::Array<kj::byte> message) {
  if (finished) co_await kj::Promise<void>(kj::NEVER_DONE);  // the handler is about to be dropped
  auto size = message.size() + kFrameHeader;
  if (carrier.queued + size > carrier.limits.mostQueued) {
    fail(ErrorKind::kResourceExhausted,
         kj::str("the client does not read: ", carrier.queued,
                 " bytes of answers wait to be sent; at most ", carrier.limits.mostQueued));
  }
  carrier.queued += size;
  out.add(frame(message));
  message = nullptr;
  begin();
  carrier.resume(stream);
  while (out.size() > carrier.limits.queued) co_await drained.next();
}

size_t ServerCall::fill(kj::ArrayPtr<kj::byte> into) {
  auto done = out.fill(into);
  carrier.queued -= done;
  if (out.size() <= carrier.limits.queued) drained.raise();
  return done;
}

void ServerCall::finish(GrpcStatus status, bool cut) {
  if (finished) return;
  finished = true;
  dropRequest();
  if (withheld > 0) carrier.credit(stream, withheld);
  withheld = 0;
  if (cut) {
    bool within = out.midFrame();
    dropAnswer();
    if (within) return carrier.reset(stream, NGHTTP2_CANCEL);
  }
  statusCode = kj::str(status.code);
  statusMessage = statusHeader(status.message, kMostText);
  if (begun) {
    // Without data before them they wait for no flow control.
    if (out.empty()) return carrier.conclude(stream, trailers());
    return carrier.resume(stream);
  }
  kj::Vector<nghttp2_nv> all;
  all.add(field(":status", "200"));
  all.add(field("content-type", kType));
  all.addAll(trailers());
  carrier.respond(stream, all, true);
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
  carrier.arriving -= counted;
  counted = 0;
  messageHold = nullptr;
  frames = FrameReader(carrier.limits.message);
}

void ServerCall::dropAnswer() {
  carrier.queued -= out.size();
  out.clear();
}

// Of what is HTTP and not gRPC.
void ServerCall::refuse(kj::StringPtr httpStatus, GrpcStatus status) {
  finished = true;
  statusCode = kj::str(status.code);
  statusMessage = statusHeader(status.message, kMostText);
  kj::Vector<nghttp2_nv> all;
  all.add(field(":status", httpStatus));
  all.add(field("content-type", kType));
  all.addAll(trailers());
  carrier.respond(stream, all, true);
}

// By the session: the handler does not go on. This may be called from within it.
void ServerCall::stop(GrpcStatus status) {
  finish(kj::mv(status), true);
  abandon();
}

void ServerCall::abandon() {
  finished = true;
  dropRequest();
  dropAnswer();
  carrier.drop(kj::mv(running));
  running = kj::READY_NOW;
}

}  // namespace talos::grpc
