// For tests: a gRPC server on one end of a pipe in the test's own loop. What a method does is a
// function of the test; an unknown one is answered with status 12, as any server does.
#pragma once

#include <kj/async-io.h>
#include <kj/debug.h>
#include <kj/map.h>
#include <nghttp2/nghttp2.h>
#include <string.h>

#include <deque>
#include <functional>
#include <map>
#include <string>

#include "common/grpc/grpc-client.h"
#include "common/grpc/grpc-frame.h"

namespace talos::grpc {

class ModelServer final : private kj::TaskSet::ErrorHandler {
 public:
  class Exchange {
   public:
    std::string path;
    std::map<std::string, std::string> headers;
    std::deque<std::string> messages;  // that have come
    bool ended = false;                // the client sends no more

    void send(std::string message) {
      auto framed = frame(kj::arrayPtr(message.data(), message.size()).asBytes());
      sendRaw(std::string(framed.asChars().begin(), framed.size()));
    }
    void sendRaw(std::string bytes) {
      out += bytes;
      server->resume(id);
    }
    void finish(int status = 0, std::string text = "") {
      finished = true;
      trailers = {{"grpc-status", std::to_string(status)}};
      if (!text.empty()) trailers.push_back({"grpc-message", text});
      server->resume(id);
    }
    // As something that speaks HTTP and no gRPC.
    void finishWithoutStatus() {
      finished = true;
      server->resume(id);
    }
    size_t taken() const { return sent; }
    // Ends the stream without a status.
    void reset(uint32_t code) {
      nghttp2_submit_rst_stream(server->h2, NGHTTP2_FLAG_NONE, id, code);
      server->flush();
    }

   private:
    friend class ModelServer;
    ModelServer* server = nullptr;
    int32_t id = 0;
    bool called = false, finished = false;
    std::string out;
    size_t sent = 0;
    std::vector<std::pair<std::string, std::string>> trailers;
    FrameReader frames{kMostMessage};
  };
  // Called when the first message is complete, and again with each further one and the end.
  using Method = std::function<void(Exchange&)>;

  ModelServer() { anew(); }
  ~ModelServer() noexcept(false) { drop(); }
  KJ_DISALLOW_COPY_AND_MOVE(ModelServer);

  std::map<std::string, Method> methods;
  std::string httpStatus = "200";
  unsigned dialled = 0, pings = 0;
  bool deaf = false;  // as a machine that has lost its power: nothing is answered any more
  std::vector<int32_t> cancelled;  // streams that the client has reset
  std::map<int32_t, Exchange> exchanges;

  // A connection for a client; the one before is closed.
  kj::Own<kj::AsyncIoStream> dial() {
    drop();
    anew();
    ++dialled;
    auto pipe = kj::newTwoWayPipe();
    stream = kj::mv(pipe.ends[0]);
    tasks = kj::heap<kj::TaskSet>(static_cast<kj::TaskSet::ErrorHandler&>(*this));
    tasks->add(readAll());
    flush();
    return kj::mv(pipe.ends[1]);
  }
  // As a server that dies.
  void drop() {
    tasks = nullptr;
    stream = nullptr;
    nghttp2_session_del(h2);
    h2 = nullptr;
    exchanges.clear();
    writing = false;
  }

 private:
  nghttp2_session* h2 = nullptr;
  kj::Own<kj::AsyncIoStream> stream;
  kj::Own<kj::TaskSet> tasks;
  bool writing = false;

  void taskFailed(kj::Exception&&) override {}

  static ModelServer& self(void* user) { return *static_cast<ModelServer*>(user); }

  void anew() {
    nghttp2_session_callbacks* c;
    nghttp2_session_callbacks_new(&c);
    KJ_DEFER(nghttp2_session_callbacks_del(c));
    nghttp2_session_callbacks_set_on_header_callback(
        c, [](nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t nameSize,
              const uint8_t* value, size_t valueSize, uint8_t, void* user) {
          auto& x = self(user).exchanges[frame->hd.stream_id];
          x.headers[std::string(name, name + nameSize)] = std::string(value, value + valueSize);
          return 0;
        });
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        c, [](nghttp2_session*, uint8_t, int32_t id, const uint8_t* data, size_t size, void* user) {
          auto& x = self(user).exchanges[id];
          auto wrong = x.frames.feed(kj::arrayPtr(data, size), [&](kj::Array<kj::byte> message) {
            x.messages.push_back(std::string(message.asChars().begin(), message.size()));
          });
          KJ_ASSERT(wrong == nullptr);
          if (!x.messages.empty()) self(user).call(id);
          return 0;
        });
    nghttp2_session_callbacks_set_on_frame_recv_callback(
        c, [](nghttp2_session*, const nghttp2_frame* frame, void* user) {
          if (frame->hd.type == NGHTTP2_DATA && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
            self(user).exchanges[frame->hd.stream_id].ended = true;
            self(user).call(frame->hd.stream_id);
          }
          if (frame->hd.type == NGHTTP2_PING) ++self(user).pings;
          if (frame->hd.type == NGHTTP2_RST_STREAM) {
            self(user).cancelled.push_back(frame->hd.stream_id);
          }
          return 0;
        });
    nghttp2_session_server_new(&h2, c, this);
    nghttp2_submit_settings(h2, NGHTTP2_FLAG_NONE, nullptr, 0);
  }

  void call(int32_t id) {
    auto& x = exchanges[id];
    x.path = x.headers[":path"];
    x.id = id;
    x.server = this;
    auto found = methods.find(x.path);
    if (!x.called) {
      x.called = true;
      auto nv = [](kj::StringPtr name, kj::StringPtr value) {
        return nghttp2_nv{reinterpret_cast<uint8_t*>(const_cast<char*>(name.begin())),
                          reinterpret_cast<uint8_t*>(const_cast<char*>(value.begin())), name.size(),
                          value.size(), NGHTTP2_NV_FLAG_NONE};
      };
      nghttp2_nv headers[] = {nv(":status", httpStatus.c_str()),
                              nv("content-type", "application/grpc")};
      nghttp2_data_provider2 body = {};
      body.read_callback = onFill;
      nghttp2_submit_response2(h2, id, headers, 2, &body);
    }
    if (found != methods.end()) {
      found->second(x);
    } else if (x.ended) {
      x.finish(12, "unknown method");
    }
    flush();
  }

  static nghttp2_ssize onFill(nghttp2_session* h2, int32_t id, uint8_t* buffer, size_t size,
                              uint32_t* flags, nghttp2_data_source*, void* user) {
    auto& x = self(user).exchanges[id];
    size_t part = kj::min(size, x.out.size() - x.sent);
    memcpy(buffer, x.out.data() + x.sent, part);
    x.sent += part;
    if (x.sent == x.out.size() && x.finished) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
      if (x.trailers.empty()) return static_cast<nghttp2_ssize>(part);
      *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
      std::vector<nghttp2_nv> nvs;
      for (auto& t : x.trailers) {
        nvs.push_back({reinterpret_cast<uint8_t*>(t.first.data()),
                       reinterpret_cast<uint8_t*>(t.second.data()), t.first.size(), t.second.size(),
                       NGHTTP2_NV_FLAG_NONE});
      }
      nghttp2_submit_trailer(h2, id, nvs.data(), nvs.size());
      return static_cast<nghttp2_ssize>(part);
    }
    return part == 0 ? NGHTTP2_ERR_DEFERRED : static_cast<nghttp2_ssize>(part);
  }

  void resume(int32_t id) {
    nghttp2_session_resume_data(h2, id);
    flush();
  }
  void flush() {
    if (writing || tasks.get() == nullptr) return;
    writing = true;
    tasks->add(kj::evalLater([this]() { return writeAll(); }));
  }
  kj::Promise<void> writeAll() {
    for (;;) {
      const uint8_t* data;
      auto size = nghttp2_session_mem_send2(h2, &data);
      if (size <= 0) break;
      auto copy = kj::heapArray(data, size);
      co_await stream->write(copy.begin(), copy.size());
    }
    writing = false;
  }
  kj::Promise<void> readAll() {
    kj::byte buffer[4096];
    for (;;) {
      auto got = co_await stream->tryRead(buffer, 1, sizeof(buffer));
      if (got == 0) co_return;
      if (deaf) continue;
      nghttp2_session_mem_recv2(h2, buffer, got);
      flush();
    }
  }
};

}  // namespace talos::grpc
