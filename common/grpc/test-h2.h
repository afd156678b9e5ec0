// HTTP/2 frames written by hand, and a client that sends them and parses the answers; for tests.
#pragma once

#include <kj/async-io.h>
#include <kj/debug.h>
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "common/grpc/grpc-frame.h"

namespace talos::grpc::testing {

inline const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

inline std::string bigEndian(uint32_t value, unsigned bytes) {
  std::string text;
  for (unsigned i = bytes; i-- > 0;) text += static_cast<char>(value >> 8 * i);
  return text;
}
inline std::string h2Frame(uint8_t type, uint8_t flags, int32_t stream,
                           const std::string& payload) {
  return bigEndian(payload.size(), 3) + static_cast<char>(type) + static_cast<char>(flags) +
         bigEndian(stream, 4) + payload;
}
// Encodes a length of HPACK: below 127, as in these tests, or with one more byte.
inline std::string hpackText(const std::string& text) {
  if (text.size() < 127) return static_cast<char>(text.size()) + text;
  std::string length = "\x7f";
  size_t rest = text.size() - 127;
  for (; rest >= 128; rest /= 128) length += static_cast<char>(rest % 128 | 128);
  return length + static_cast<char>(rest) + text;
}
using Fields = std::vector<std::pair<std::string, std::string>>;
inline std::string hpack(const Fields& fields, bool indexed = false) {
  std::string block;
  for (auto& f : fields) {
    block += indexed ? '\x40' : '\0';
    block += hpackText(f.first) + hpackText(f.second);
  }
  return block;
}
inline Fields request(const std::string& path, const Fields& more = {}) {
  Fields all = {{":method", "POST"},
                {":scheme", "https"},
                {":path", path},
                {":authority", "10.0.0.1:50000"},
                {"te", "trailers"},
                {"content-type", "application/grpc"},
                {"user-agent", "grpc-go/1"}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}
constexpr uint8_t kEndStream = NGHTTP2_FLAG_END_STREAM, kEndHeaders = NGHTTP2_FLAG_END_HEADERS;
inline std::string headersFrame(int32_t stream, const Fields& fields, uint8_t flags = kEndHeaders) {
  return h2Frame(NGHTTP2_HEADERS, flags, stream, hpack(fields));
}
inline std::string grpcMessage(const std::string& text) {
  return '\0' + bigEndian(text.size(), 4) + text;
}
inline std::string dataFrame(int32_t stream, const std::string& bytes, uint8_t flags = kEndStream) {
  return h2Frame(NGHTTP2_DATA, flags, stream, bytes);
}
inline std::string settingsFrame(uint8_t flags = 0) {
  return h2Frame(NGHTTP2_SETTINGS, flags, 0, "");
}
// Returns a complete call with one message.
inline std::string call(int32_t stream, const std::string& path, const std::string& message = "") {
  return headersFrame(stream, request(path)) + dataFrame(stream, grpcMessage(message));
}
inline std::string hello() {
  return kPreface + settingsFrame();
}

// Sends raw bytes, and keeps what it receives: frames, and the fields and data of each stream.
class RawH2Client {
 public:
  explicit RawH2Client(kj::Own<kj::AsyncIoStream> given) : stream(kj::mv(given)) {
    KJ_ASSERT(nghttp2_hd_inflate_new(&inflater) == 0);
    reading = readAll().eagerlyEvaluate([this](kj::Exception&&) { ended = true; });
  }
  ~RawH2Client() { nghttp2_hd_inflate_del(inflater); }
  KJ_DISALLOW_COPY_AND_MOVE(RawH2Client);

  struct Frame {
    uint8_t type, flags;
    int32_t stream;
    std::string payload;
  };
  std::vector<Frame> frames;
  std::map<int32_t, std::map<std::string, std::string>> fields;
  std::map<int32_t, std::string> data;
  bool ended = false;

  kj::Promise<void> send(std::string bytes) { co_await stream->write(bytes.data(), bytes.size()); }
  void disconnect() { stream->shutdownWrite(); }
  unsigned count(uint8_t type) const {
    return std::count_if(frames.begin(), frames.end(), [&](auto& f) { return f.type == type; });
  }
  // Return the code of the last frame of this type: GOAWAY, or RST_STREAM of this stream.
  int goaway() const {
    int code = -1;
    for (auto& f : frames) {
      if (f.type == NGHTTP2_GOAWAY) code = static_cast<uint8_t>(f.payload[7]);
    }
    return code;
  }
  int reset(int32_t id) const {
    int code = -1;
    for (auto& f : frames) {
      if (f.type == NGHTTP2_RST_STREAM && f.stream == id) code = static_cast<uint8_t>(f.payload[3]);
    }
    return code;
  }
  // Returns "status: text" of a stream; "" while it has no status.
  std::string status(int32_t id) {
    auto& of = fields[id];
    if (of.count("grpc-status") == 0) return "";
    auto text = of["grpc-message"];
    return of["grpc-status"] + (text.empty() ? "" : ": ") + statusText(text.c_str()).cStr();
  }

 private:
  kj::Own<kj::AsyncIoStream> stream;
  nghttp2_hd_inflater* inflater;
  std::string rest;
  kj::Promise<void> reading = nullptr;

  kj::Promise<void> readAll() {
    char buffer[8192];
    for (;;) {
      auto got = co_await stream->tryRead(buffer, 1, sizeof buffer);
      if (got == 0) break;
      rest.append(buffer, got);
      while (takeFrame()) {
      }
    }
    ended = true;
  }
  bool takeFrame() {
    if (rest.size() < 9) return false;
    auto byte = [&](size_t i) { return static_cast<uint8_t>(rest[i]); };
    size_t length = byte(0) << 16 | byte(1) << 8 | byte(2);
    if (rest.size() < 9 + length) return false;
    int32_t id = byte(5) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8);
    Frame frame{byte(3), byte(4), id, rest.substr(9, length)};
    rest.erase(0, 9 + length);
    if (frame.type == NGHTTP2_HEADERS) inflate(frame);
    if (frame.type == NGHTTP2_DATA) data[id] += frame.payload;
    frames.push_back(frame);
    return true;
  }
  void inflate(const Frame& frame) {
    auto* in = reinterpret_cast<const uint8_t*>(frame.payload.data());
    size_t left = frame.payload.size();
    for (;;) {
      nghttp2_nv nv;
      int flags = 0;
      auto used = nghttp2_hd_inflate_hd3(inflater, &nv, &flags, in, left, 1);
      KJ_ASSERT(used >= 0, "not valid HPACK");
      in += used;
      left -= used;
      if (flags & NGHTTP2_HD_INFLATE_EMIT) {
        fields[frame.stream][std::string(nv.name, nv.name + nv.namelen)] =
            std::string(nv.value, nv.value + nv.valuelen);
      }
      if (flags & NGHTTP2_HD_INFLATE_FINAL) break;
    }
    nghttp2_hd_inflate_end_headers(inflater);
  }
};

}  // namespace talos::grpc::testing
