#include "common/grpc/grpc-wire.h"

#include <kj/debug.h>
#include <string.h>

namespace talos::grpc {
namespace {

constexpr size_t kWriteAtOnce = 16384;

uint8_t* bytesOf(kj::StringPtr text) {
  return reinterpret_cast<uint8_t*>(const_cast<char*>(text.begin()));  // nghttp2 copies them
}

}  // namespace

nghttp2_nv field(kj::StringPtr name, kj::StringPtr value) {
  return {bytesOf(name), bytesOf(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

kj::Promise<void> writePending(nghttp2_session* session, kj::AsyncIoStream& stream) {
  kj::Vector<kj::byte> batch;
  for (;;) {
    batch.clear();
    while (batch.size() < kWriteAtOnce) {
      const uint8_t* data;
      auto size = nghttp2_session_mem_send2(session, &data);
      KJ_REQUIRE(size >= 0, nghttp2_strerror(static_cast<int>(size)));
      if (size == 0) break;
      batch.addAll(data, data + size);
    }
    if (batch.empty()) break;
    co_await stream.write(batch.begin(), batch.size());
  }
}

size_t Outbox::fill(kj::ArrayPtr<kj::byte> into) {
  size_t done = 0;
  while (done < into.size() && !frames.empty()) {
    auto& front = frames.front();
    size_t part = kj::min(into.size() - done, front.size() - offset);
    memcpy(into.begin() + done, front.begin() + offset, part);
    done += part;
    offset += part;
    if (offset < front.size()) break;
    frames.pop_front();
    offset = 0;
  }
  waiting -= done;
  return done;
}

void Outbox::clear() {
  frames.clear();
  offset = waiting = 0;
}

}  // namespace talos::grpc
