#include "common/wire/peek.h"

#include <string.h>

namespace talos {
namespace {

class PutBack final : public kj::AsyncIoStream {
 public:
  PutBack(kj::Array<kj::byte> first, kj::Own<kj::AsyncIoStream> inner)
      : first(kj::mv(first)), inner(kj::mv(inner)) {}

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
  kj::Promise<void> write(const void* buffer, size_t size) override {
    return inner->write(buffer, size);
  }
  kj::Promise<void> write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) override {
    return inner->write(pieces);
  }
  kj::Promise<void> whenWriteDisconnected() override { return inner->whenWriteDisconnected(); }
  void shutdownWrite() override { inner->shutdownWrite(); }
  void abortRead() override { inner->abortRead(); }
  void getsockopt(int level, int option, void* value, kj::uint* length) override {
    inner->getsockopt(level, option, value, length);
  }
  void setsockopt(int level, int option, const void* value, kj::uint length) override {
    inner->setsockopt(level, option, value, length);
  }
  kj::Maybe<int> getFd() const override { return inner->getFd(); }

 private:
  kj::Array<kj::byte> first;
  size_t taken = 0;
  kj::Own<kj::AsyncIoStream> inner;
};

}  // namespace

kj::Promise<Peeked> peek(kj::Own<kj::AsyncIoStream> stream, size_t bytes) {
  auto first = kj::heapArray<kj::byte>(bytes);
  auto got = co_await stream->tryRead(first.begin(), bytes, bytes);
  auto seen = kj::heapArray(first.slice(0, got).asConst());
  co_return Peeked{kj::mv(seen),
                   kj::heap<PutBack>(kj::heapArray(first.slice(0, got).asConst()), kj::mv(stream))};
}

}  // namespace talos
