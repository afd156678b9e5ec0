#include "common/grpc/grpc-client-session.h"

#include <kj/debug.h>
#include <nghttp2/nghttp2.h>

#include <deque>

#include "common/grpc/grpc-frame.h"

namespace talos::grpc {
namespace {

constexpr size_t kReadAtOnce = 16384;
// Enough that a message of the usual size needs no wait for credit.
constexpr int32_t kStreamWindow = 1 << 20, kConnectionWindow = 4 << 20;
static_assert(kMostUnread >= kStreamWindow, "a whole window may arrive unread");

struct Status {
  int code;  // of gRPC; 0 is OK
  kj::String text;
};

kj::Exception exceptionOf(const Status& status) {
  return error(kindOfStatus(status.code), status.text);
}

}  // namespace

class ClientCall final : public Call {
 public:
  ClientCall(kj::Own<ClientSession> session, kj::String path, kj::Maybe<kj::TimePoint> deadline)
      : session(kj::mv(session)),
        path(kj::mv(path)),
        deadline(deadline),
        frames(this->session->options.mostAnswer) {}
  ~ClientCall() noexcept(false) override;

  kj::Promise<void> write(kj::Array<const kj::byte> message) override;
  void endOfMessages() override;
  kj::Promise<kj::Maybe<kj::Array<kj::byte>>> read() override;

  // Called by the session for events of this stream.
  size_t fill(kj::ArrayPtr<kj::byte> into, bool& last);
  void header(kj::StringPtr name, kj::StringPtr value);
  size_t received(kj::ArrayPtr<const kj::byte> bytes);  // how much credit to give back now
  void closed(uint32_t code);
  void end(int code, kj::String text);

  int32_t stream = 0;

 private:
  kj::Own<ClientSession> session;
  kj::String path;
  kj::Maybe<kj::TimePoint> deadline;

  SendQueue out;
  bool noMoreMessages = false;

  FrameReader frames;
  std::deque<kj::Array<kj::byte>> unread;
  size_t unreadBytes = 0, withheld = 0;

  int httpStatus = 0;
  kj::Maybe<int> code;
  kj::String text;
  kj::Maybe<Status> result;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> reader, writer;

  static void wake(kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>>& waiter);
  kj::Promise<void> change(kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>>& waiter);
};

// --- one call ---

ClientCall::~ClientCall() noexcept(false) {
  session->cancel(stream);
}

void ClientCall::wake(kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>>& waiter) {
  KJ_IF_MAYBE (w, waiter) {
    (*w)->fulfill();
    waiter = nullptr;
  }
}

kj::Promise<void> ClientCall::change(kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>>& waiter) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  waiter = kj::mv(paf.fulfiller);
  auto promise = kj::mv(paf.promise);
  KJ_IF_MAYBE (d, deadline) {
    promise = promise.exclusiveJoin(session->timer.atTime(*d).then([this]() {
      end(4, kj::str(session->server, " has not answered ", path, " in time"));
      session->checkAlive();
      session->cancel(stream);
    }));
  }
  return promise;
}

void ClientCall::end(int status, kj::String error) {
  if (result == nullptr) result = Status{status, kj::mv(error)};
  wake(reader);
  wake(writer);
}

kj::Promise<void> ClientCall::write(kj::Array<const kj::byte> message) {
  if (result != nullptr) co_return;  // read() rejects with the error
  out.add(frame(message));
  session->resume(stream);
  while (!out.empty() && result == nullptr) co_await change(writer);
}

void ClientCall::endOfMessages() {
  noMoreMessages = true;
  session->resume(stream);
}

size_t ClientCall::fill(kj::ArrayPtr<kj::byte> into, bool& last) {
  auto done = out.fill(into);
  if (out.empty()) wake(writer);
  last = out.empty() && noMoreMessages;
  return done;
}

kj::Promise<kj::Maybe<kj::Array<kj::byte>>> ClientCall::read() {
  while (unread.empty() && result == nullptr) co_await change(reader);
  if (!unread.empty()) {
    auto message = kj::mv(unread.front());
    unread.pop_front();
    unreadBytes -= message.size() + kFrameHeader;
    if (withheld > 0 && unreadBytes < kMostUnread / 2) {
      session->credit(stream, withheld);
      withheld = 0;
    }
    co_return kj::mv(message);
  }
  auto& status = KJ_ASSERT_NONNULL(result);
  if (status.code != 0) kj::throwFatalException(exceptionOf(status));
  co_return nullptr;
}

void ClientCall::header(kj::StringPtr name, kj::StringPtr value) {
  if (name == ":status") {
    httpStatus = value.tryParseAs<int>().orDefault(0);
  } else if (name == "grpc-status") {
    code = value.tryParseAs<int>().orDefault(2);
  } else if (name == "grpc-message") {
    auto kept = kj::heapString(value.slice(0, kj::min(value.size(), kMostStatus)));
    text = statusText(kept);
  }
}

size_t ClientCall::received(kj::ArrayPtr<const kj::byte> bytes) {
  auto wrong = frames.feed(bytes, [this](kj::Array<kj::byte> message) {
    unreadBytes += message.size() + kFrameHeader;
    unread.push_back(kj::mv(message));
    wake(reader);
  });
  KJ_IF_MAYBE (w, wrong) {
    end(13, kj::str("cannot read the answer of ", session->server, " to ", path, ": ", *w));
    session->cancel(stream);
  }
  if (unreadBytes < kMostUnread / 2) return bytes.size();
  withheld += bytes.size();
  return 0;
}

void ClientCall::closed(uint32_t h2Code) {
  KJ_IF_MAYBE (c, code) {
    if (*c == 0 && !frames.atBoundary()) {
      return end(13, kj::str(session->server, " has truncated its answer to ", path));
    }
    if (*c != 0 && text.size() == 0) text = kj::str(path, " has failed with status ", *c);
    return end(*c, kj::mv(text));
  }
  if (httpStatus != 0 && httpStatus != 200) {
    return end(httpStatus == 503 ? 14 : 13,
               kj::str(session->server, " has answered ", path, " with HTTP status ", httpStatus));
  }
  end(h2Code == NGHTTP2_REFUSED_STREAM ? 14 : 13,
      kj::str(session->server, " has ended ", path,
              " without a status: ", nghttp2_http2_strerror(h2Code)));
}

// --- the connection ---

ClientSession::~ClientSession() noexcept(false) {
  nghttp2_session_del(h2);
}

bool ClientSession::usable() const {
  return lost == nullptr && nghttp2_session_check_request_allowed(h2) != 0;
}

ClientCall* ClientSession::find(int32_t id) const {
  auto it = calls.find(id);
  return it == calls.end() ? nullptr : it->second;
}

void ClientSession::resume(int32_t id) {
  nghttp2_session_resume_data(h2, id);
  flush();
}

void ClientSession::credit(int32_t id, size_t bytes) {
  if (lost == nullptr) nghttp2_session_consume_stream(h2, id, bytes);
  flush();
}

bool ClientSession::header(const nghttp2_frame& frame, kj::StringPtr name, kj::StringPtr value) {
  auto call = find(frame.hd.stream_id);
  if (call != nullptr) call->header(name, value);
  return true;
}

size_t ClientSession::data(int32_t id, kj::ArrayPtr<const kj::byte> bytes) {
  auto call = find(id);
  return call == nullptr ? bytes.size() : call->received(bytes);
}

void ClientSession::closed(int32_t id, uint32_t code) {
  auto call = find(id);
  if (call == nullptr) return;
  calls.erase(id);
  call->closed(code);
}

kj::Maybe<size_t> ClientSession::fill(int32_t id, kj::ArrayPtr<kj::byte> into, uint32_t& flags) {
  auto call = find(id);
  if (call == nullptr) return nullptr;
  bool last = false;
  auto filled = call->fill(into, last);
  if (last) flags |= NGHTTP2_DATA_FLAG_EOF;
  return filled;
}

ClientSession::ClientSession(kj::Timer& timer, kj::String server, kj::Own<kj::AsyncIoStream> given,
                             ConnectionOptions givenOptions)
    : timer(timer),
      server(kj::mv(server)),
      stream(kj::mv(given)),
      options(kj::mv(givenOptions)),
      h2(newH2Session(H2Side::kClient, *this)),
      quietSince(timer.now()) {
  nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                       {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow}};
  nghttp2_submit_settings(h2, NGHTTP2_FLAG_NONE, settings, kj::size(settings));
  nghttp2_session_set_local_window_size(h2, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
  reads = kj::evalLater([this]() { return readAll(); }).eagerlyEvaluate([this](kj::Exception&& e) {
    loseBy(e);
  });
  flush();
}

kj::Own<Call> ClientSession::open(kj::StringPtr path, kj::ArrayPtr<const Metadata> metadata,
                                  kj::Maybe<kj::Duration> deadline) {
  KJ_IF_MAYBE (error, lost) {
    fail(ErrorKind::kUnavailable, kj::str("the connection to ", server, " was lost: ", *error));
  }
  if (calls.size() >= kMostCalls) {
    fail(ErrorKind::kResourceExhausted,
         kj::str(calls.size(), " calls to ", server, " are open, which is the limit"));
  }
  kj::Vector<nghttp2_nv> headers;
  auto add = [&](kj::StringPtr name, kj::StringPtr value) { headers.add(field(name, value)); };
  add(":method", "POST");
  add(":scheme", options.scheme);
  add(":path", path);
  add(":authority", options.authority);
  add("te", "trailers");
  add("content-type", "application/grpc");
  kj::String timeout;
  kj::Maybe<kj::TimePoint> until;
  KJ_IF_MAYBE (d, deadline) {
    timeout = timeoutText(*d);
    add("grpc-timeout", timeout);
    until = timer.now() + *d;
  }
  for (auto& m : metadata) add(m.name, m.value);
  auto call = kj::heap<ClientCall>(kj::addRef(*this), kj::str(path), until);
  auto body = h2DataProvider();
  auto id = nghttp2_submit_request2(h2, nullptr, headers.begin(), headers.size(), &body, nullptr);
  if (id < 0) {
    fail(ErrorKind::kUnavailable, kj::str("cannot start ", path, ": ", nghttp2_strerror(id)));
  }
  call->stream = id;
  if (calls.empty()) quietSince = timer.now();
  calls[id] = call.get();
  monitor();
  flush();
  return call;
}

void ClientSession::cancel(int32_t id) {
  if (calls.erase(id) == 0 || lost != nullptr) return;
  nghttp2_submit_rst_stream(h2, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
  flush();
}

void ClientSession::flush() {
  if (writing || lost != nullptr || nghttp2_session_want_write(h2) == 0) return;
  writing = true;
  writes =
      kj::evalLater([this]() { return writeAll(); }).eagerlyEvaluate([this](kj::Exception&& e) {
        writing = false;
        loseBy(e);
      });
}

kj::Promise<void> ClientSession::writeAll() {
  co_await writePending(h2, *stream);
  writing = false;
  endedByProtocol();
}

// Returns true after a GOAWAY of either side: the server exits, or it broke the protocol.
bool ClientSession::endedByProtocol() {
  if (nghttp2_session_want_read(h2) != 0) return false;
  lose(kj::str("ended by HTTP/2: the server exits or breaks the protocol"));
  return true;
}

kj::Promise<void> ClientSession::readAll() {
  auto buffer = kj::heapArray<kj::byte>(kReadAtOnce);
  for (;;) {
    auto got = co_await stream->tryRead(buffer.begin(), 1, buffer.size());
    if (got == 0) break;
    quietSince = timer.now();
    pinged = nullptr;
    auto used = nghttp2_session_mem_recv2(h2, buffer.begin(), got);
    if (used < 0) {
      lose(kj::str("not valid HTTP/2: ", nghttp2_strerror(static_cast<int>(used))));
      co_return;
    }
    if (endedByProtocol()) co_return;
    flush();
  }
  lose(kj::str("closed"));
}

// --- keepalive ---

void ClientSession::ping() {
  nghttp2_submit_ping(h2, NGHTTP2_FLAG_NONE, nullptr);
  pinged = lastPing = timer.now();
  flush();
}

void ClientSession::checkAlive() {
  KJ_IF_MAYBE (silence, options.silence) {
    if (lost != nullptr || pinged != nullptr) return;
    KJ_IF_MAYBE (last, lastPing) {
      if (timer.now() < *last + *silence / 2) return;
    }
    ping();
    monitor();
  }
}

void ClientSession::monitor() {
  KJ_IF_MAYBE (silence, options.silence) {
    if (monitoring) return;
    monitoring = true;
    keepalive = kj::evalLater([this, half = *silence / 2]() {
                  return monitorFor(half);
                }).eagerlyEvaluate([this](kj::Exception&& e) { lose(messageOf(e)); });
  }
}

// Runs while a call or a ping waits for an answer.
kj::Promise<void> ClientSession::monitorFor(kj::Duration half) {
  KJ_DEFER(monitoring = false);
  while (lost == nullptr && (!calls.empty() || pinged != nullptr)) {
    co_await timer.atTime(pinged.orDefault(quietSince) + half);
    KJ_IF_MAYBE (since, pinged) {
      if (timer.now() < *since + half) continue;
      lose(kj::str("no answer to a ping within ", half / kj::SECONDS, " s"));
    } else if (!calls.empty() && timer.now() >= quietSince + half) {
      ping();
    }
  }
}

void ClientSession::loseBy(const kj::Exception& e) {
  // A server's refusal of our certificate shows only in later reads and writes.
  lose(messageOf(e), kindOf(e) == ErrorKind::kUnauthenticated ? 16 : 14);
}

void ClientSession::lose(kj::String error, int code) {
  if (lost != nullptr) return;
  auto ended = kj::mv(calls);
  calls.clear();
  for (auto& item : ended) {
    item.second->end(code, kj::str("the connection to ", server, " was lost: ", error));
  }
  lost = kj::mv(error);
}

}  // namespace talos::grpc
