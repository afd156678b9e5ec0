#include "common/grpc/grpc-server.h"

#include <kj/debug.h>

#include <map>

#include "common/grpc/grpc-server-call.h"
#include "common/grpc/h2-frame-budget.h"

namespace talos::grpc {
namespace {

constexpr size_t kPiece = 4096;
// Units of a piece (common/wire/budget.h) besides the calls that it starts: some hundred frames.
constexpr size_t kPieceUnits = 8;
// The headers of a call are unpacked up to so many times their limit.
constexpr size_t kHeaderFactor = 4;
// A config of some hundred KiB arrives in a few round trips; 256 calls at once have enough.
constexpr int32_t kCallWindow = 256 << 10, kAllCallsWindow = 4 << 20;
// Frames that wait to be sent, other than data: an answer and a status for each call, and answers
// to the frames that the budget permits.
constexpr size_t kMostFrames = 4096;
// More frames than this may wait for a slow client only for a short time.
constexpr size_t kManyFrames = 256;
// Time that a client has to read the error when its connection is closed.
constexpr auto kErrorTimeout = 2 * kj::SECONDS;
// Time that a client may still start calls after the shutdown notice, if it does not answer the
// ping.
constexpr auto kDrainPing = 1 * kj::SECONDS;

class ServerSession final : public CallTransport, private H2SessionEvents, private Budget::Queue {
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
  kj::Vector<kj::Own<ServerCall>> closedCalls;
  kj::Vector<kj::Promise<void>> dropped;
  kj::Maybe<kj::String> failure;  // caused by the client
  kj::Own<kj::PromiseFulfiller<void>> failed;
  kj::Promise<void> failing = nullptr;
  Signal wrote, ponged;
  bool writing = false, watching = false, lost = false;
  kj::Promise<void> writes = nullptr, watch = nullptr, reader = nullptr;
  bool watchingReader = false;
  uint64_t fills = 0, framesSent = 0;
  size_t headerBytes = 0;  // unpacked, of the block that is being received
  Turns ownTurns;          // of a client without an account

  // --- CallTransport ---
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
  size_t queued() const override { return CallTransport::queued; }
  void cutOff() override {
    disconnect(NGHTTP2_ENHANCE_YOUR_CALM, kj::str("the client reads its answers too slowly"));
  }

  kj::Promise<void> readAll();
  Turns& turns() { return account.get() == nullptr ? ownTurns : account->turns; }
  bool muchWaits() const {
    return CallTransport::queued > limits.stuckQueue ||
           nghttp2_session_get_outbound_queue_size(h2) > kManyFrames;
  }
  kj::Promise<void> watchReader();
  kj::Promise<void> writeAll();
  kj::Promise<void> written();
  kj::Promise<void> drain();
  kj::Promise<void> sendError();
  kj::Promise<void> watchMessages();
  void flush();
  void sweep();
  void disconnect(uint32_t code, kj::String error);
  void spend(int64_t cost) {
    if (budget.spend(cost, timer.now())) return;
    disconnect(NGHTTP2_ENHANCE_YOUR_CALM, kj::str("the client sends too many frames without data"));
  }
  bool spendOnHeader(size_t bytes);
  ServerCall* find(int32_t id) {
    auto it = calls.find(id);
    return it == calls.end() ? nullptr : it->second.get();
  }

  // --- H2SessionEvents ---
  void frameStarted(const nghttp2_frame_hd& header) override;
  void requestStarted(int32_t id) override {
    turns().spend(1);
    calls[id] = kj::heap<ServerCall>(*this, id);
  }
  void frameReceived(const nghttp2_frame& frame) override;
  void frameSent(const nghttp2_frame& frame) override;
  bool header(const nghttp2_frame& frame, kj::StringPtr name, kj::StringPtr value) override;
  size_t data(int32_t id, kj::ArrayPtr<const kj::byte> bytes) override;
  void closed(int32_t id, uint32_t code) override;
  kj::Maybe<size_t> fill(int32_t id, kj::ArrayPtr<kj::byte> into, uint32_t& flags) override;
};

ServerSession::ServerSession(kj::Timer& timer, kj::Own<kj::AsyncIoStream> given,
                             GrpcHandler& handler, const GrpcLimits& limits,
                             kj::Own<Budget::Account> account)
    : CallTransport(timer, handler, limits, kj::mv(account)),
      stream(kj::mv(given)),
      budget(timer.now(), limits.calls) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  failed = kj::mv(paf.fulfiller);
  failing = kj::mv(paf.promise);
  h2 = newH2Session(H2Side::kServer, *this);
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

// --- from the client ---

// Counts frames. nghttp2 accepts at most eight CONTINUATION frames in a row, which are not counted.
void ServerSession::frameStarted(const nghttp2_frame_hd& header) {
  switch (header.type) {
    case NGHTTP2_HEADERS:
      headerBytes = 0;
      return spend(FrameBudget::kEmpty);
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

// Charges a field of any header block: of a request, of trailers, or of neither. All are unpacked
// and checked. Returns false when the client has lost its connection.
bool ServerSession::spendOnHeader(size_t bytes) {
  auto before = headerBytes / FrameBudget::kHeaderBytes;
  headerBytes += bytes;
  auto cost = headerBytes / FrameBudget::kHeaderBytes - before;
  if (cost > 0) spend(static_cast<int64_t>(cost));
  auto most = kHeaderFactor * limits.headers;
  if (headerBytes > most) {
    disconnect(NGHTTP2_ENHANCE_YOUR_CALM,
               kj::str("the headers of a call are more than ", most, " bytes"));
  }
  return failure == nullptr;
}

bool ServerSession::header(const nghttp2_frame& frame, kj::StringPtr name, kj::StringPtr value) {
  if (!spendOnHeader(name.size() + value.size() + kFieldBytes)) return false;
  auto call = find(frame.hd.stream_id);
  if (call != nullptr && frame.headers.cat == NGHTTP2_HCAT_REQUEST) call->header(name, value);
  return true;
}

void ServerSession::frameReceived(const nghttp2_frame& frame) {
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
  closedCalls.add(kj::mv(it->second));
  calls.erase(it);
  wrote.raise();  // drain() waits for the last one
}

kj::Promise<void> ServerSession::readAll() {
  auto buffer = kj::heapArray<kj::byte>(kPiece);
  for (;;) {
    auto got = co_await stream->tryRead(buffer.begin(), 1, buffer.size());
    if (got == 0) co_return;
    co_await turns().next(timer);
    turns().spend(kPieceUnits);
    if (failure != nullptr) continue;  // being disconnected
    auto used = nghttp2_session_mem_recv2(h2, buffer.begin(), got);
    if (account.get() != nullptr) account->received(got);
    if (used < 0) {
      disconnect(NGHTTP2_PROTOCOL_ERROR,
                 kj::str("not valid HTTP/2: ", nghttp2_strerror(static_cast<int>(used))));
    } else if (nghttp2_session_get_outbound_queue_size(h2) > kMostFrames) {
      disconnect(NGHTTP2_ENHANCE_YOUR_CALM, kj::str("the client does not read the answers"));
    }
    sweep();
    if (!watching && arriving > 0) {
      watching = true;
      watch = watchMessages().eagerlyEvaluate(nullptr);
    }
    flush();
  }
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

// --- to the client ---

void ServerSession::respond(int32_t id, kj::ArrayPtr<const nghttp2_nv> fields, bool all) {
  auto body = h2DataProvider();
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

void ServerSession::frameSent(const nghttp2_frame& frame) {
  auto id = frame.hd.stream_id;
  ++framesSent;
  switch (frame.hd.type) {
    case NGHTTP2_DATA:
      return budget.earn(FrameBudget::kAnswer);
    case NGHTTP2_HEADERS:
      budget.earn(FrameBudget::kAnswer);
      // Does not wait for bytes that the client might still send.
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
      return disconnect(
          frame.goaway.error_code,
          kj::str("not valid HTTP/2: ", nghttp2_http2_strerror(frame.goaway.error_code)));
    default:
      return;
  }
}

// Answers to PING do not show that the client reads its answers.
kj::Promise<void> ServerSession::watchReader() {
  while (muchWaits()) {
    auto fillsBefore = fills, framesBefore = framesSent;
    co_await timer.afterDelay(limits.stuck);
    bool many = nghttp2_session_get_outbound_queue_size(h2) > kManyFrames;
    if ((CallTransport::queued > limits.stuckQueue && fills == fillsBefore) ||
        (many && framesSent == framesBefore)) {
      disconnect(NGHTTP2_ENHANCE_YOUR_CALM, kj::str("the client does not read its answers"));
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
    // The reading side reports the disconnect.
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

// Drops the promises of closed calls; not called from within nghttp2 or a call.
void ServerSession::sweep() {
  auto calls = kj::mv(closedCalls);
  auto promises = kj::mv(dropped);
  closedCalls = {};
  dropped = {};
  promises.clear();
}

void ServerSession::disconnect(uint32_t code, kj::String error) {
  if (failure != nullptr) return;
  failure = kj::mv(error);
  nghttp2_session_terminate_session(h2, code);
  failed->fulfill();
}

// Gives the client a moment to read the error.
kj::Promise<void> ServerSession::sendError() {
  for (auto& item : calls) item.second->abandon();
  sweep();
  flush();
  auto sent = written().then([this]() -> kj::Promise<void> {
    stream->shutdownWrite();
    return kj::NEVER_DONE;
  });
  return timer.afterDelay(kErrorTimeout).exclusiveJoin(kj::mv(sent));
}

kj::Promise<void> ServerSession::drain() {
  nghttp2_submit_shutdown_notice(h2);
  flush();
  co_await written();
  nghttp2_submit_ping(h2, NGHTTP2_FLAG_NONE, nullptr);
  flush();
  // Calls after its answer were started by a client that knows of the shutdown.
  co_await ponged.next().exclusiveJoin(timer.afterDelay(kDrainPing));
  nghttp2_submit_goaway(h2, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(h2),
                        NGHTTP2_NO_ERROR, nullptr, 0);
  flush();
  while (writing || !calls.empty()) co_await wrote.next();
  stream->shutdownWrite();
  co_await kj::Promise<void>(kj::NEVER_DONE);  // until the client disconnects
}

kj::Promise<kj::Maybe<kj::String>> ServerSession::run(kj::Promise<void> stop) {
  auto draining = stop.then([this]() { return drain(); });
  auto broken = failing.then([this]() { return sendError(); });
  co_await readAll()
      .catch_([this](kj::Exception&& e) {
        if (e.getType() != kj::Exception::Type::DISCONNECTED && failure == nullptr) {
          failure = messageOf(e);
        }
      })
      .exclusiveJoin(kj::mv(draining))
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
