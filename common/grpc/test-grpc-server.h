// The gRPC server of grpc-server.h on one end of a pipe in the test's event loop. Each method is a
// function of the test; unknown methods are answered with status 12, as by any server. Frames that
// our server never sends are written by hand (test-h2.h).
#pragma once

#include <kj/async-io.h>
#include <kj/debug.h>
#include <nghttp2/nghttp2.h>

#include <deque>
#include <functional>
#include <map>
#include <string>

#include "common/base/signal.h"
#include "common/grpc/grpc-client.h"
#include "common/grpc/grpc-server.h"
#include "common/net/forwarding-stream.h"

namespace talos::grpc {

// A timer that stands still, so that the server enforces no deadlines: tests are about the
// client's.
class FrozenTimer final : public kj::Timer {
 public:
  kj::TimePoint now() const override { return kj::origin<kj::TimePoint>(); }
  kj::Promise<void> atTime(kj::TimePoint time) override { return afterDelay(time - now()); }
  kj::Promise<void> afterDelay(kj::Duration delay) override {
    if (delay > 0 * kj::SECONDS) return kj::NEVER_DONE;
    return kj::evalLast([]() {});
  }
};

// Counts the client's pings in the bytes that the server receives.
class PingObserver final : public ForwardingStream {
 public:
  PingObserver(kj::Own<kj::AsyncIoStream> inner, const bool& deaf, unsigned& pings)
      : ForwardingStream(kj::mv(inner)), deaf(deaf), pings(pings) {}

  kj::Promise<size_t> tryRead(void* buffer, size_t least, size_t most) override {
    for (;;) {
      auto got = co_await inner->tryRead(buffer, least, most);
      if (got > 0 && deaf) continue;
      parse(kj::arrayPtr(static_cast<kj::byte*>(buffer), got));
      co_return got;
    }
  }

 private:
  static constexpr size_t kPreface = 24, kHeader = 9;

  const bool& deaf;
  unsigned& pings;
  size_t passed = kPreface;  // bytes that are not part of a frame's header
  std::string header;

  void parse(kj::ArrayPtr<const kj::byte> bytes) {
    for (auto byte : bytes) {
      if (passed > 0) {
        --passed;
        continue;
      }
      header += static_cast<char>(byte);
      if (header.size() < kHeader) continue;
      auto at = [&](size_t i) { return static_cast<uint8_t>(header[i]); };
      if (at(3) == NGHTTP2_PING && (at(4) & NGHTTP2_FLAG_ACK) == 0) ++pings;
      passed = at(0) << 16 | at(1) << 8 | at(2);
      header.clear();
    }
  }
};

class ModelServer final : private GrpcHandler {
 public:
  class Exchange {
   public:
    std::string path;
    std::map<std::string, std::string> headers;  // only the headers that tests check
    std::deque<std::string> messages;            // received messages
    bool ended = false;                          // the client sends no more

    void send(std::string message) {
      out.push_back(std::move(message));
      changed.raise();
    }
    void finish(int code = 0, const std::string& text = "") {
      status = GrpcStatus{static_cast<kj::uint>(code), kj::str(text.c_str())};
      changed.raise();
    }
    size_t taken() const { return sent; }  // bytes that the connection has taken

   private:
    friend class ModelServer;
    std::deque<std::string> out;
    size_t sent = 0;
    kj::Maybe<GrpcStatus> status;
    Signal changed;
  };
  // Called when the first message is complete, and again for each further message and the end.
  using Method = std::function<void(Exchange&)>;

  ModelServer() = default;
  ~ModelServer() noexcept(false) { drop(); }
  KJ_DISALLOW_COPY_AND_MOVE(ModelServer);

  std::map<std::string, Method> methods;
  unsigned dialled = 0, pings = 0;
  bool deaf = false;  // like a machine that has lost power: it answers nothing any more
  std::vector<int32_t> cancelled;         // streams whose calls were cancelled before their end
  std::map<int32_t, Exchange> exchanges;  // exchanges of the connection

  // Returns a connection for a client; the connection before is closed.
  kj::Own<kj::AsyncIoStream> dial() {
    drop();
    ++dialled;
    auto pipe = kj::newTwoWayPipe();
    auto stream = kj::heap<PingObserver>(kj::mv(pipe.ends[0]), deaf, pings);
    serving = serveGrpc(time, kj::mv(stream), *this, kLimits)
                  .ignoreResult()
                  .eagerlyEvaluate([](kj::Exception&&) {});
    return kj::mv(pipe.ends[1]);
  }
  // Closes the connection as a dying server does.
  void drop() {
    dying = true;
    serving = nullptr;
    dying = false;
    exchanges.clear();
    streams = 0;
  }

 private:
  static constexpr GrpcLimits kLimits{.message = kMostMessage};

  FrozenTimer time;
  kj::Maybe<kj::Promise<void>> serving;
  bool dying = false;
  int32_t streams = 0;

  kj::Promise<GrpcStatus> call(GrpcCall& call) override {
    int32_t id = 2 * streams++ + 1;  // a client's numbering
    auto& x = exchanges[id];
    x.path = call.path().cStr();
    for (auto name :
         {":method", "content-type", "te", "grpc-timeout", "containerd-namespace", "hasleader"}) {
      for (auto& value : call.metadata(name)) x.headers[name] = value.cStr();
    }
    auto given = kj::defer([this, id, &x]() {
      if (x.status == nullptr && !dying) cancelled.push_back(id);
    });
    co_return co_await answering(call, x).exclusiveJoin(listening(call, x));
  }
  kj::Promise<GrpcStatus> listening(GrpcCall& call, Exchange& x) {
    auto found = methods.find(x.path);
    while (!x.ended) {
      auto message = co_await call.receive();
      KJ_IF_MAYBE (m, message) {
        x.messages.push_back(std::string(m->asChars().begin(), m->size()));
      } else {
        x.ended = true;
      }
      if (found != methods.end()) {
        found->second(x);
      } else if (x.ended) {
        x.finish(12, "unknown method");
      }
    }
    co_return co_await kj::Promise<GrpcStatus>(kj::NEVER_DONE);
  }
  kj::Promise<GrpcStatus> answering(GrpcCall& call, Exchange& x) {
    call.begin();
    for (;;) {
      auto changed = x.changed.next();
      while (!x.out.empty()) {
        auto message = std::move(x.out.front());
        x.out.pop_front();
        x.sent += message.size();
        co_await call.send(kj::heapArray(kj::arrayPtr(message.data(), message.size()).asBytes()));
      }
      KJ_IF_MAYBE (s, x.status) co_return GrpcStatus{s->code, kj::str(s->message)};
      co_await changed;
    }
  }
};

}  // namespace talos::grpc
