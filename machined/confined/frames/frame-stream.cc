#include "machined/confined/frames/frame-stream.h"

#include <kj/debug.h>
#include <string.h>

#include "common/memory/zeroize.h"

namespace talos::machined {

kj::Promise<void> writeFrame(kj::AsyncIoStream& stream, kj::ArrayPtr<const capnp::word> words) {
  auto size = static_cast<uint32_t>(words.size());
  co_await stream.write(&size, sizeof(size));
  co_await stream.write(words.asBytes().begin(), words.asBytes().size());
}

kj::Promise<kj::Array<capnp::word>> readFrame(kj::AsyncIoStream& stream, size_t most) {
  uint32_t size = 0;
  co_await stream.read(&size, sizeof(size));
  KJ_REQUIRE(size > 0 && size <= most, "not a frame");
  constexpr size_t kAtOnce = 128u << 10;
  auto words = kj::heapArray<capnp::word>(kj::min(size, kAtOnce));
  KJ_DEFER(zeroize(words.asBytes()));
  size_t filled = 0;
  for (;;) {
    auto rest = words.slice(filled, words.size()).asBytes();
    co_await stream.read(rest.begin(), rest.size());
    filled = words.size();
    if (filled == size) break;
    auto larger = kj::heapArray<capnp::word>(kj::min(size_t(size), 2 * filled));
    memcpy(larger.begin(), words.begin(), filled * sizeof(capnp::word));
    zeroize(words.asBytes());
    words = kj::mv(larger);
  }
  co_return kj::mv(words);
}

kj::Array<capnp::word> BrainSocket::receive() {
  uint32_t size = 0;
  in.read(&size, sizeof(size));
  KJ_REQUIRE(size <= mostWords, "not a frame");
  auto words = kj::heapArray<capnp::word>(size);
  in.read(words.asBytes().begin(), words.asBytes().size());
  return words;
}

void BrainSocket::send(capnp::MessageBuilder& message) {
  auto words = frameOf(message);
  KJ_DEFER(zeroize(words.asBytes()));
  auto size = static_cast<uint32_t>(words.size());
  out.write(&size, sizeof(size));
  out.write(words.asBytes().begin(), words.asBytes().size());
}

}  // namespace talos::machined
