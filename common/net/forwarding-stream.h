// Base class of stream wrappers: forwards every call to another stream. Derived classes override
// the calls that they change. Owns the other stream, or refers to it.
#pragma once

#include <kj/async-io.h>

namespace talos {

class ForwardingStream : public kj::AsyncIoStream {
 public:
  explicit ForwardingStream(kj::Own<kj::AsyncIoStream> inner) : inner(kj::mv(inner)) {}
  // The stream must outlive this one.
  explicit ForwardingStream(kj::AsyncIoStream& inner)
      : inner(kj::Own<kj::AsyncIoStream>(&inner, kj::NullDisposer::instance)) {}

  kj::Promise<size_t> tryRead(void* buffer, size_t least, size_t most) override {
    return inner->tryRead(buffer, least, most);
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
  void getsockname(struct sockaddr* address, kj::uint* length) override {
    inner->getsockname(address, length);
  }
  void getpeername(struct sockaddr* address, kj::uint* length) override {
    inner->getpeername(address, length);
  }
  kj::Maybe<int> getFd() const override { return inner->getFd(); }

 protected:
  kj::Own<kj::AsyncIoStream> inner;
};

}  // namespace talos
