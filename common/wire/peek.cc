#include "common/wire/peek.h"

#include <string.h>

#include "common/net/forwarding-stream.h"

namespace talos {
namespace {

// Returns the first bytes again, then reads from the inner stream.
class PutBackStream final : public ForwardingStream {
 public:
  PutBackStream(kj::Array<kj::byte> first, kj::Own<kj::AsyncIoStream> inner)
      : ForwardingStream(kj::mv(inner)), first(kj::mv(first)) {}

  kj::Promise<size_t> tryRead(void* buffer, size_t least, size_t most) override {
    auto left = first.size() - taken;
    if (left == 0) return inner->tryRead(buffer, least, most);
    auto part = kj::min(left, most);
    memcpy(buffer, first.begin() + taken, part);
    taken += part;
    if (part >= least) return part;
    return inner->tryRead(static_cast<kj::byte*>(buffer) + part, least - part, most - part)
        .then([part](size_t more) { return part + more; });
  }

 private:
  kj::Array<kj::byte> first;
  size_t taken = 0;
};

}  // namespace

kj::Promise<Peeked> peek(kj::Own<kj::AsyncIoStream> stream, size_t bytes) {
  auto first = kj::heapArray<kj::byte>(bytes);
  auto got = co_await stream->tryRead(first.begin(), bytes, bytes);
  auto peeked = kj::heapArray(first.slice(0, got).asConst());
  co_return Peeked{
      kj::mv(peeked),
      kj::heap<PutBackStream>(kj::heapArray(first.slice(0, got).asConst()), kj::mv(stream))};
}

}  // namespace talos
