#include "common/grpc/grpc-server.h"

#include <kj/debug.h>

#include <map>

#include "common/grpc/grpc-server-call.h"
#include "common/grpc/h2-frame-budget.h"

namespace talos::grpc {
namespace {

constexpr size_t kPiece = 4096;
// Before the loop turns to others: some hundred small calls, a few milliseconds of work.
constexpr unsigned kPiecesInTurn = 4;
// So many times the limit, the headers of a call are unpacked no further.
constexpr size_t kMuchTooLong = 4;
// A config of some hundred KiB comes in a few round trips; 256 calls at once have enough.
constexpr int32_t kCallWindow = 256 << 10, kAllCallsWindow = 4 << 20;
// Frames that wait to be sent, other than those of data: an answer and a status for each call, and
// what the budget of frames lets a client ask for.
constexpr size_t kMostFrames = 4096;
// More of them than this wait for a client that is slow, not for long.
constexpr size_t kManyFrames = 256;
// For who is turned away, to read why.
constexpr auto kFarewell = 2 * kj::SECONDS;
// How long a client that is to go elsewhere may still begin calls, if it does not answer.
constexpr auto kLastCalls = 1 * kj::SECONDS;

class ServerSession final : public Carrier, private H2Events, private Budget::Queue {
 public:
  ServerSession(kj::Timer& timer, kj::Own<kj::AsyncIoStream> stream, GrpcHandler& handler,
                const GrpcLimits& limits, kj::Own<Budget::Account> account);
  ~ServerSession() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(ServerSession);

  kj::Promise<kj::Maybe<kj::String>> run(kj::Promise<void> stop);

 private:
  kj::Own<kj::AsyncIoStream> stream;
  nghttp2_session* h2 = nullptr;
  FrameBudget budget;
  std::map<int32_t, kj::Own<ServerCall>> calls;
  kj::Vector<kj::Own<ServerCall>> gone;  // whose streams are closed
  kj::Vector<kj::Promise<void>> dropped;
  kj::Maybe<kj::String> failure;  // of the client
  kj::Own<kj::PromiseFulfiller<void>> failed;
  kj::Promise<void> failing = nullptr;
  Signal wrote, ponged;
  bool writing = false, watching = false, lost = false;
  kj::Promise<void> writes = nullptr, watch = nullptr, reader = nullptr;
  bool watchingReader = false;
  uint64_t fills = 0, framesSent = 0;
  kj::TimePoint turn;
  unsigned inTurn = 0;  // pieces that were read

  // --- Carrier ---
  void respond(int32_t id, kj::ArrayPtr<const nghttp2_nv> fields, bool all) override;
  void conclude(int32_t id, kj::ArrayPtr<const nghttp2_nv> trailers) override {
    nghttp2_submit_trailer(h2, id, trailers.begin(), trailers.size());
    flush();
  }
  void resume(int32_t id) override {
    nghttp2_session_resume_data(h2, id);
    flush();
  }
  void credit(int32_t id, size_t bytes) override {
    nghttp2_session_consume_stream(h2, id, bytes);
    flush();
  }
  void reset(int32_t id, uint32_t code) override {
    nghttp2_submit_rst_stream(h2, NGHTTP2_FLAG_NONE, id, code);
    flush();
  }
  void drop(kj::Promise<void> promise) override { dropped.add(kj::mv(promise)); }
  // --- Budget::Queue ---
  size_t queued() const override { return Carrier::queued; }
  void cutOff() override {
    expel(NGHTTP2_ENHANCE_YOUR_CALM, kj::str("the client reads too little of what it asked for"));
  }

  kj::Promise<void> readAll();
  kj::Promise<void> takeTurns();
  bool muchWaits() const {
    return Carrier::queued > limits.stuckQueue ||
           nghttp2_session_get_outbound_queue_size(h2) > kManyFrames;
  }
  kj::Promise<void> watchReader();
  kj::Promise<void> writeAll();
  kj::Promise<void> written();
  kj::Promise<void> leave();
  kj::Promise<void> turnAway();
  kj::Promise<void> watchMessages();
  void flush();
  void sweep();
  void expel(uint32_t code, kj::String why);
  void spend(int64_t cost) {
    if (budget.spend(cost, timer.now())) return;
    expel(NGHTTP2_ENHANCE_YOUR_CALM,
          kj::str("the client sends too many frames that carry nothing"));
  }
  ServerCall* find(int32_t id) {
    auto it = calls.find(id);
    return it == calls.end() ? nullptr : it->second.get();
  }

  // --- nghttp2 ---
  static ServerSession& self(void* user) {
    return static_cast<ServerSession&>(*static_cast<H2Events*>(user));
  }
  void began(const nghttp2_frame_hd& header);
  void received(const nghttp2_frame& frame);
  void sent(const nghttp2_frame& frame);
  bool header(const nghttp2_frame& frame, kj::StringPtr name, kj::StringPtr value) override;
  size_t data(int32_t id, kj::ArrayPtr<const kj::byte> bytes) override;
  void closed(int32_t id, uint32_t code) override;
  kj::Maybe<size_t> fill(int32_t id, kj::ArrayPtr<kj::byte> into, uint32_t& flags) override;
  void open();
};

ServerSession::ServerSession(kj::Timer& timer, kj::Own<kj::AsyncIoStream> given,
                             GrpcHandler& handler, const GrpcLimits& limits,
                             kj::Own<Budget::Account> account)
    : Carrier(timer, handler, limits, kj::mv(account)),
      stream(kj::mv(given)),
      budget(timer.now()),
      turn(timer.now()) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  failed = kj::mv(paf.fulfiller);
  failing = kj::mv(paf.promise);
  open();
  if (this->account.get() != nullptr) this->account->add(*this);
  nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.calls},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kCallWindow},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<uint32_t>(limits.headers)},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}};
  nghttp2_submit_settings(h2, NGHTTP2_FLAG_NONE, settings, kj::size(settings));
  nghttp2_session_set_local_window_size(h2, NGHTTP2_FLAG_NONE, 0, kAllCallsWindow);
  flush();
}

ServerSession::~ServerSession() noexcept(false) {
  if (account.get() != nullptr) account->remove(*this);
  writes = nullptr;
  watch = nullptr;
  reader = nullptr;
  for (auto& item : calls) item.second->abandon();
  sweep();
  calls.clear();
  nghttp2_session_del(h2);
}

void ServerSession::open() {
  nghttp2_session_callbacks* callbacks;
  KJ_ASSERT(nghttp2_session_callbacks_new(&callbacks) == 0);
  KJ_DEFER(nghttp2_session_callbacks_del(callbacks));
  nghttp2_session_callbacks_set_on_begin_frame_callback(
      callbacks, [](nghttp2_session*, const nghttp2_frame_hd* header, void* user) {
        self(user).began(*header);
        return 0;
      });
  nghttp2_session_callbacks_set_on_begin_headers_callback(
      callbacks, [](nghttp2_session*, const nghttp2_frame* frame, void* user) {
        if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
          auto id = frame->hd.stream_id;
          self(user).calls[id] = kj::heap<ServerCall>(self(user), id);
        }
        return 0;
      });
  setEvents(callbacks);
  nghttp2_session_callbacks_set_on_frame_recv_callback(
      callbacks, [](nghttp2_session*, const nghttp2_frame* frame, void* user) {
        self(user).received(*frame);
        return 0;
      });
  nghttp2_session_callbacks_set_on_frame_send_callback(
      callbacks, [](nghttp2_session*, const nghttp2_frame* frame, void* user) {
        self(user).sent(*frame);
        return 0;
      });
  nghttp2_option* option;
  KJ_ASSERT(nghttp2_option_new(&option) == 0);
  KJ_DEFER(nghttp2_option_del(option));
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_stream_reset_rate_limit(option, UINT64_MAX, UINT64_MAX);  // ours: FrameBudget
  KJ_ASSERT(nghttp2_session_server_new2(&h2, callbacks, static_cast<H2Events*>(this), option) == 0);
}

// --- what the client sends ---

// Every frame but CONTINUATION, of which nghttp2 takes eight in a row.
void ServerSession::began(const nghttp2_frame_hd& header) {
  switch (header.type) {
    case NGHTTP2_HEADERS:
      return;
    case NGHTTP2_DATA: {
      bool ends = (header.flags & NGHTTP2_FLAG_END_STREAM) != 0;
      auto worth = FrameBudget::worthOf(header.length);
      if (worth > 0) return budget.earn(worth);
      return spend(ends ? 0 : -worth);
    }
    case NGHTTP2_RST_STREAM:
      return spend(FrameBudget::kReset);
    default:
      return spend(FrameBudget::kEmpty);
  }
}

bool ServerSession::header(const nghttp2_frame& frame, kj::StringPtr name, kj::StringPtr value) {
  auto call = find(frame.hd.stream_id);
  if (call == nullptr || frame.headers.cat != NGHTTP2_HCAT_REQUEST) return true;
  auto most = kMuchTooLong * limits.headers;
  if (call->header(name, value) <= most) return true;
  expel(NGHTTP2_ENHANCE_YOUR_CALM, kj::str("the headers of a call are more than ", most, " bytes"));
  return false;
}

void ServerSession::received(const nghttp2_frame& frame) {
  if (frame.hd.type == NGHTTP2_PING) {
    if (frame.hd.flags & NGHTTP2_FLAG_ACK) ponged.raise();
    return;
  }
  if (frame.hd.type != NGHTTP2_HEADERS && frame.hd.type != NGHTTP2_DATA) return;
  auto call = find(frame.hd.stream_id);
  if (call == nullptr || failure != nullptr) return;
  if (frame.hd.type == NGHTTP2_HEADERS && frame.headers.cat == NGHTTP2_HCAT_REQUEST) {
    call->headersComplete();
  }
  if (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) call->endOfMessages();
}

size_t ServerSession::data(int32_t id, kj::ArrayPtr<const kj::byte> bytes) {
  auto call = find(id);
  return call == nullptr ? bytes.size() : call->received(bytes);
}

void ServerSession::closed(int32_t id, uint32_t) {
  auto it = calls.find(id);
  if (it == calls.end()) return;
  it->second->abandon();
  gone.add(kj::mv(it->second));
  calls.erase(it);
  wrote.raise();  // leave() waits for the last one
}

kj::Promise<void> ServerSession::readAll() {
  auto buffer = kj::heapArray<kj::byte>(kPiece);
  for (;;) {
    auto got = co_await stream->tryRead(buffer.begin(), 1, buffer.size());
    if (got == 0) co_return;
    co_await takeTurns();
    if (failure != nullptr) continue;  // it is turned away
    auto used = nghttp2_session_mem_recv2(h2, buffer.begin(), got);
    if (account.get() != nullptr) account->received(got);
    if (used < 0) {
      expel(NGHTTP2_PROTOCOL_ERROR,
            kj::str("not valid HTTP/2: ", nghttp2_strerror(static_cast<int>(used))));
    } else if (nghttp2_session_get_outbound_queue_size(h2) > kMostFrames) {
      expel(NGHTTP2_ENHANCE_YOUR_CALM, kj::str("the client does not read the answers"));
    }
    sweep();
    if (!watching && arriving > 0) {
      watching = true;
      watch = watchMessages().eagerlyEvaluate(nullptr);
    }
    flush();
  }
}

// A client that always has something to say would otherwise keep out everybody else: the loop looks
// for what has come, and sends what is Cap'n Proto's, only when it has nothing left to do.
kj::Promise<void> ServerSession::takeTurns() {
  auto now = timer.now();  // stands still until the loop has looked
  if (now != turn) inTurn = 0;
  turn = now;
  if (++inTurn <= kPiecesInTurn) return kj::READY_NOW;
  return timer.afterDelay(0 * kj::SECONDS);
}

kj::Promise<void> ServerSession::watchMessages() {
  for (bool any = true; any;) {
    co_await timer.afterDelay(limits.slow);
    any = false;
    for (auto& item : calls) any = item.second->checkProgress() || any;
    sweep();
  }
  watching = false;
}

// --- what it is sent ---

void ServerSession::respond(int32_t id, kj::ArrayPtr<const nghttp2_nv> fields, bool all) {
  auto body = eventsFill();
  nghttp2_submit_response2(h2, id, fields.begin(), fields.size(), all ? nullptr : &body);
  flush();
}

kj::Maybe<size_t> ServerSession::fill(int32_t id, kj::ArrayPtr<kj::byte> into, uint32_t& flags) {
  auto call = find(id);
  if (call == nullptr) return nullptr;
  auto filled = call->fill(into);
  if (filled > 0) ++fills;
  if (call->complete()) {
    flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    auto trailers = call->trailers();
    nghttp2_submit_trailer(h2, id, trailers.begin(), trailers.size());
  }
  return filled;
}

void ServerSession::sent(const nghttp2_frame& frame) {
  auto id = frame.hd.stream_id;
  ++framesSent;
  switch (frame.hd.type) {
    case NGHTTP2_DATA:
      return budget.earn(FrameBudget::kAnswer);
    case NGHTTP2_HEADERS:
      budget.earn(FrameBudget::kAnswer);
      // What the client might still send is not waited for.
      if ((frame.hd.flags & NGHTTP2_FLAG_END_STREAM) &&
          nghttp2_session_get_stream_remote_close(h2, id) == 0) {
        nghttp2_submit_rst_stream(h2, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
      }
      return;
    case NGHTTP2_RST_STREAM:
      if (frame.rst_stream.error_code != NGHTTP2_NO_ERROR) spend(FrameBudget::kWrong);
      return;
    case NGHTTP2_GOAWAY:
      if (frame.goaway.error_code == NGHTTP2_NO_ERROR) return;
      return expel(frame.goaway.error_code,
                   kj::str("not valid HTTP/2: ", nghttp2_http2_strerror(frame.goaway.error_code)));
    default:
      return;
  }
}

// Answers to PING are no sign that it takes what it has asked for.
kj::Promise<void> ServerSession::watchReader() {
  while (muchWaits()) {
    auto fillsBefore = fills, framesBefore = framesSent;
    co_await timer.afterDelay(limits.stuck);
    bool many = nghttp2_session_get_outbound_queue_size(h2) > kManyFrames;
    if ((Carrier::queued > limits.stuckQueue && fills == fillsBefore) ||
        (many && framesSent == framesBefore)) {
      expel(NGHTTP2_ENHANCE_YOUR_CALM, kj::str("the client takes nothing of what it asked for"));
      break;
    }
  }
  watchingReader = false;
}

void ServerSession::flush() {
  if (!watchingReader && failure == nullptr && muchWaits()) {
    watchingReader = true;
    reader = kj::evalLater([this]() { return watchReader(); }).eagerlyEvaluate(nullptr);
  }
  if (writing || lost || nghttp2_session_want_write(h2) == 0) return;
  writing = true;
  writes = kj::evalLater([this]() { return writeAll(); }).eagerlyEvaluate([this](kj::Exception&&) {
    // Reading tells that it is gone.
    lost = true;
    writing = false;
    wrote.raise();
  });
}

kj::Promise<void> ServerSession::writeAll() {
  co_await writePending(h2, *stream);
  writing = false;
  sweep();
  wrote.raise();
}

kj::Promise<void> ServerSession::written() {
  while (writing) co_await wrote.next();
}

// --- the end ---

// Not from within nghttp2 or a call: their promises are dropped here.
void ServerSession::sweep() {
  auto calls = kj::mv(gone);
  auto promises = kj::mv(dropped);
  gone = {};
  dropped = {};
  promises.clear();
}

void ServerSession::expel(uint32_t code, kj::String why) {
  if (failure != nullptr) return;
  failure = kj::mv(why);
  nghttp2_session_terminate_session(h2, code);
  failed->fulfill();
}

// Gives it a moment to read why.
kj::Promise<void> ServerSession::turnAway() {
  for (auto& item : calls) item.second->abandon();
  sweep();
  flush();
  auto told = written().then([this]() -> kj::Promise<void> {
    stream->shutdownWrite();
    return kj::NEVER_DONE;
  });
  return timer.afterDelay(kFarewell).exclusiveJoin(kj::mv(told));
}

kj::Promise<void> ServerSession::leave() {
  nghttp2_submit_shutdown_notice(h2);
  flush();
  co_await written();
  nghttp2_submit_ping(h2, NGHTTP2_FLAG_NONE, nullptr);
  flush();
  // Behind its answer come only calls that it began knowing better.
  co_await ponged.next().exclusiveJoin(timer.afterDelay(kLastCalls));
  nghttp2_submit_goaway(h2, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(h2),
                        NGHTTP2_NO_ERROR, nullptr, 0);
  flush();
  while (writing || !calls.empty()) co_await wrote.next();
  stream->shutdownWrite();
  co_await kj::Promise<void>(kj::NEVER_DONE);  // it ends when the client has seen that and goes
}

kj::Promise<kj::Maybe<kj::String>> ServerSession::run(kj::Promise<void> stop) {
  auto leaving = stop.then([this]() { return leave(); });
  auto broken = failing.then([this]() { return turnAway(); });
  co_await readAll()
      .catch_([this](kj::Exception&& e) {
        if (e.getType() != kj::Exception::Type::DISCONNECTED && failure == nullptr) {
          failure = messageOf(e);
        }
      })
      .exclusiveJoin(kj::mv(leaving))
      .exclusiveJoin(kj::mv(broken));
  co_return kj::mv(failure);
}

}  // namespace

kj::Promise<kj::Maybe<kj::String>> serveGrpc(kj::Timer& timer, kj::Own<kj::AsyncIoStream> stream,
                                             GrpcHandler& handler, GrpcLimits limits,
                                             kj::Promise<void> stop,
                                             kj::Own<Budget::Account> account) {
  auto session = kj::heap<ServerSession>(timer, kj::mv(stream), handler, limits, kj::mv(account));
  auto running = session->run(kj::mv(stop));
  return running.attach(kj::mv(session));
}

}  // namespace talos::grpc
