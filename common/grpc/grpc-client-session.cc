#include "common/grpc/grpc-client-session.h"

#include <kj/debug.h>
#include <nghttp2/nghttp2.h>

#include <deque>
#include <map>

#include "common/grpc/grpc-frame.h"
#include "common/grpc/h2-session.h"

namespace talos::grpc {
namespace {

constexpr size_t kReadAtOnce = 16384;
// Enough that a message of the usual size needs no wait for credit.
constexpr int32_t kStreamWindow = 1 << 20, kConnectionWindow = 4 << 20;
static_assert(kMostUnread >= kStreamWindow, "the window is what may come unread");

struct Status {
  int code;  // of gRPC; 0 is OK
  kj::String text;
};

kj::Exception exceptionOf(const Status& status) {
  return error(kindOfStatus(status.code), status.text);
}

class SessionImpl;

class CallImpl final : public Call {
 public:
  CallImpl(kj::Own<SessionImpl> session, kj::String path, kj::Maybe<kj::TimePoint> deadline)
      : session(kj::mv(session)), path(kj::mv(path)), deadline(deadline) {}
  ~CallImpl() noexcept(false) override;

  kj::Promise<void> write(kj::Array<const kj::byte> message) override;
  void endOfMessages() override;
  kj::Promise<kj::Maybe<kj::Array<kj::byte>>> read() override;

  // Of the session: what HTTP/2 says about this stream.
  size_t fill(kj::ArrayPtr<kj::byte> into, bool& last);
  void header(kj::StringPtr name, kj::StringPtr value);
  size_t received(kj::ArrayPtr<const kj::byte> bytes);  // how much credit to give back now
  void closed(uint32_t code);
  void end(int code, kj::String text);

  int32_t stream = 0;

 private:
  kj::Own<SessionImpl> session;
  kj::String path;
  kj::Maybe<kj::TimePoint> deadline;

  Outbox out;
  bool lastGiven = false;

  FrameReader frames{kMostMessage};
  std::deque<kj::Array<kj::byte>> unread;
  size_t unreadBytes = 0, withheld = 0;

  int httpStatus = 0;
  kj::Maybe<int> code;
  kj::String text;
  kj::Maybe<Status> over;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> reader, writer;

  void wake(kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>>& who);
  kj::Promise<void> change(kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>>& who);
};

class SessionImpl final : public Session, private H2Events {
 public:
  SessionImpl(kj::Timer& timer, kj::String server, kj::Own<kj::AsyncIoStream> stream, Wire wire);
  ~SessionImpl() noexcept(false) override { nghttp2_session_del(h2); }

  bool usable() const override {
    return lost == nullptr && nghttp2_session_check_request_allowed(h2) != 0;
  }
  kj::Own<Call> open(kj::StringPtr path, kj::ArrayPtr<const Metadata> metadata,
                     kj::Maybe<kj::Duration> deadline) override;
  unsigned calls() const override { return open_.size(); }

  void flush();
  void resume(int32_t stream) {
    nghttp2_session_resume_data(h2, stream);
    flush();
  }
  void credit(int32_t stream, size_t bytes) {
    if (lost == nullptr) nghttp2_session_consume_stream(h2, stream, bytes);
    flush();
  }
  void cancel(int32_t stream);
  // A call was not answered in time: perhaps there is nobody any more.
  void suspect();

  kj::Timer& timer;
  kj::String server;

 private:
  kj::Own<kj::AsyncIoStream> stream;
  Wire wire;
  nghttp2_session* h2 = nullptr;
  std::map<int32_t, CallImpl*> open_;
  kj::Maybe<kj::String> lost;
  bool writing = false, listening = false;
  kj::TimePoint quietSince;
  kj::Maybe<kj::TimePoint> pinged;  // and nothing was heard since
  kj::Maybe<kj::TimePoint> lastPing;
  kj::Promise<void> reads = nullptr, writes = nullptr, listens = nullptr;

  kj::Promise<void> readAll();
  kj::Promise<void> writeAll();
  void ping();
  void listen();
  kj::Promise<void> listenFor(kj::Duration half);
  void lose(kj::String why, int code = 14);
  void loseBy(const kj::Exception& e) {
    // A certificate that the server refuses shows only in what is read or written later.
    lose(messageOf(e), kindOf(e) == ErrorKind::kUnauthenticated ? 16 : 14);
  }
  bool endedByProtocol();
  CallImpl* find(int32_t id) const {
    auto it = open_.find(id);
    return it == open_.end() ? nullptr : it->second;
  }

  // --- H2Events ---
  bool header(const nghttp2_frame& frame, kj::StringPtr name, kj::StringPtr value) override;
  size_t data(int32_t id, kj::ArrayPtr<const kj::byte> bytes) override;
  void closed(int32_t id, uint32_t code) override;
  kj::Maybe<size_t> fill(int32_t id, kj::ArrayPtr<kj::byte> into, uint32_t& flags) override;
};

// --- one call ---

CallImpl::~CallImpl() noexcept(false) {
  session->cancel(stream);
}

void CallImpl::wake(kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>>& who) {
  KJ_IF_MAYBE (w, who) {
    (*w)->fulfill();
    who = nullptr;
  }
}

kj::Promise<void> CallImpl::change(kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>>& who) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  who = kj::mv(paf.fulfiller);
  auto promise = kj::mv(paf.promise);
  KJ_IF_MAYBE (d, deadline) {
    promise = promise.exclusiveJoin(session->timer.atTime(*d).then([this]() {
      end(4, kj::str(session->server, " has not answered ", path, " in time"));
      session->suspect();
      session->cancel(stream);
    }));
  }
  return promise;
}

void CallImpl::end(int status, kj::String why) {
  if (over == nullptr) over = Status{status, kj::mv(why)};
  wake(reader);
  wake(writer);
}

kj::Promise<void> CallImpl::write(kj::Array<const kj::byte> message) {
  if (over != nullptr) co_return;  // read() tells why
  out.add(frame(message));
  session->resume(stream);
  while (!out.empty() && over == nullptr) co_await change(writer);
}

void CallImpl::endOfMessages() {
  lastGiven = true;
  session->resume(stream);
}

size_t CallImpl::fill(kj::ArrayPtr<kj::byte> into, bool& last) {
  auto done = out.fill(into);
  if (out.empty()) wake(writer);
  last = out.empty() && lastGiven;
  return done;
}

kj::Promise<kj::Maybe<kj::Array<kj::byte>>> CallImpl::read() {
  while (unread.empty() && over == nullptr) co_await change(reader);
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
  auto& status = KJ_ASSERT_NONNULL(over);
  if (status.code != 0) kj::throwFatalException(exceptionOf(status));
  co_return nullptr;
}

void CallImpl::header(kj::StringPtr name, kj::StringPtr value) {
  if (name == ":status") {
    httpStatus = value.tryParseAs<int>().orDefault(0);
  } else if (name == "grpc-status") {
    code = value.tryParseAs<int>().orDefault(2);
  } else if (name == "grpc-message") {
    auto kept = kj::heapString(value.slice(0, kj::min(value.size(), kMostStatus)));
    text = statusText(kept);
  }
}

size_t CallImpl::received(kj::ArrayPtr<const kj::byte> bytes) {
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

void CallImpl::closed(uint32_t h2Code) {
  KJ_IF_MAYBE (c, code) {
    if (*c == 0 && !frames.atBoundary()) {
      return end(13, kj::str(session->server, " has cut its answer to ", path));
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

bool SessionImpl::header(const nghttp2_frame& frame, kj::StringPtr name, kj::StringPtr value) {
  auto call = find(frame.hd.stream_id);
  if (call != nullptr) call->header(name, value);
  return true;
}

size_t SessionImpl::data(int32_t id, kj::ArrayPtr<const kj::byte> bytes) {
  auto call = find(id);
  return call == nullptr ? bytes.size() : call->received(bytes);
}

void SessionImpl::closed(int32_t id, uint32_t code) {
  auto call = find(id);
  if (call == nullptr) return;
  open_.erase(id);
  call->closed(code);
}

kj::Maybe<size_t> SessionImpl::fill(int32_t id, kj::ArrayPtr<kj::byte> into, uint32_t& flags) {
  auto call = find(id);
  if (call == nullptr) return nullptr;
  bool last = false;
  auto filled = call->fill(into, last);
  if (last) flags |= NGHTTP2_DATA_FLAG_EOF;
  return filled;
}

SessionImpl::SessionImpl(kj::Timer& timer, kj::String server, kj::Own<kj::AsyncIoStream> given,
                         Wire givenWire)
    : timer(timer),
      server(kj::mv(server)),
      stream(kj::mv(given)),
      wire(kj::mv(givenWire)),
      quietSince(timer.now()) {
  nghttp2_session_callbacks* callbacks;
  KJ_ASSERT(nghttp2_session_callbacks_new(&callbacks) == 0);
  KJ_DEFER(nghttp2_session_callbacks_del(callbacks));
  setEvents(callbacks);
  nghttp2_option* option;
  KJ_ASSERT(nghttp2_option_new(&option) == 0);
  KJ_DEFER(nghttp2_option_del(option));
  nghttp2_option_set_no_auto_window_update(option, 1);
  KJ_ASSERT(nghttp2_session_client_new2(&h2, callbacks, static_cast<H2Events*>(this), option) == 0);
  nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                       {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow}};
  nghttp2_submit_settings(h2, NGHTTP2_FLAG_NONE, settings, kj::size(settings));
  nghttp2_session_set_local_window_size(h2, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
  reads = kj::evalLater([this]() { return readAll(); }).eagerlyEvaluate([this](kj::Exception&& e) {
    loseBy(e);
  });
  flush();
}

kj::Own<Call> SessionImpl::open(kj::StringPtr path, kj::ArrayPtr<const Metadata> metadata,
                                kj::Maybe<kj::Duration> deadline) {
  KJ_IF_MAYBE (why, lost) {
    fail(ErrorKind::kUnavailable, kj::str("the connection to ", server, " was lost: ", *why));
  }
  if (open_.size() >= kMostCalls) {
    fail(ErrorKind::kResourceExhausted,
         kj::str(open_.size(), " calls to ", server, " are open; no more are begun"));
  }
  kj::Vector<nghttp2_nv> headers;
  auto add = [&](kj::StringPtr name, kj::StringPtr value) { headers.add(field(name, value)); };
  add(":method", "POST");
  add(":scheme", wire.scheme);
  add(":path", path);
  add(":authority", wire.authority);
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
  auto call = kj::heap<CallImpl>(kj::addRef(*this), kj::str(path), until);
  auto body = eventsFill();
  auto id = nghttp2_submit_request2(h2, nullptr, headers.begin(), headers.size(), &body, nullptr);
  if (id < 0) {
    fail(ErrorKind::kUnavailable, kj::str("cannot begin ", path, ": ", nghttp2_strerror(id)));
  }
  call->stream = id;
  if (open_.empty()) quietSince = timer.now();
  open_[id] = call.get();
  listen();
  flush();
  return call;
}

void SessionImpl::cancel(int32_t id) {
  if (open_.erase(id) == 0 || lost != nullptr) return;
  nghttp2_submit_rst_stream(h2, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
  flush();
}

void SessionImpl::flush() {
  if (writing || lost != nullptr || nghttp2_session_want_write(h2) == 0) return;
  writing = true;
  writes =
      kj::evalLater([this]() { return writeAll(); }).eagerlyEvaluate([this](kj::Exception&& e) {
        writing = false;
        loseBy(e);
      });
}

kj::Promise<void> SessionImpl::writeAll() {
  co_await writePending(h2, *stream);
  writing = false;
  endedByProtocol();
}

// After a GOAWAY of either side: the server exits, or something was wrong with what it sent.
bool SessionImpl::endedByProtocol() {
  if (nghttp2_session_want_read(h2) != 0) return false;
  lose(kj::str("ended by HTTP/2: the server exits or breaks the protocol"));
  return true;
}

kj::Promise<void> SessionImpl::readAll() {
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

// --- whether there is still somebody ---

void SessionImpl::ping() {
  nghttp2_submit_ping(h2, NGHTTP2_FLAG_NONE, nullptr);
  pinged = lastPing = timer.now();
  flush();
}

void SessionImpl::suspect() {
  KJ_IF_MAYBE (silence, wire.silence) {
    if (lost != nullptr || pinged != nullptr) return;
    KJ_IF_MAYBE (last, lastPing) {
      if (timer.now() < *last + *silence / 2) return;
    }
    ping();
    listen();
  }
}

void SessionImpl::listen() {
  KJ_IF_MAYBE (silence, wire.silence) {
    if (listening) return;
    listening = true;
    listens = kj::evalLater([this, half = *silence / 2]() {
                return listenFor(half);
              }).eagerlyEvaluate([this](kj::Exception&& e) { lose(messageOf(e)); });
  }
}

// As long as there is something to wait for.
kj::Promise<void> SessionImpl::listenFor(kj::Duration half) {
  KJ_DEFER(listening = false);
  while (lost == nullptr && (!open_.empty() || pinged != nullptr)) {
    co_await timer.atTime(pinged.orDefault(quietSince) + half);
    KJ_IF_MAYBE (since, pinged) {
      if (timer.now() < *since + half) continue;
      lose(kj::str("no answer to a ping within ", half / kj::SECONDS, " s"));
    } else if (!open_.empty() && timer.now() >= quietSince + half) {
      ping();
    }
  }
}

void SessionImpl::lose(kj::String why, int code) {
  if (lost != nullptr) return;
  auto ended = kj::mv(open_);
  open_.clear();
  for (auto& item : ended) {
    item.second->end(code, kj::str("the connection to ", server, " was lost: ", why));
  }
  lost = kj::mv(why);
}

}  // namespace

kj::Own<Session> beginSession(kj::Timer& timer, kj::String server,
                              kj::Own<kj::AsyncIoStream> stream, Wire wire) {
  return kj::refcounted<SessionImpl>(timer, kj::mv(server), kj::mv(stream), kj::mv(wire));
}

}  // namespace talos::grpc
