// Bytes that hold a secret, as an ordinary array: they are overwritten when the array is freed,
// wherever it was moved meanwhile and however its owner ended. For data that is created with its
// final size; data that arrives in pieces goes into a SecretBuffer.
#pragma once

#include <new>

#include "common/memory/zeroize.h"

namespace talos {

class SecretDisposer : public kj::ArrayDisposer {
 public:
  static const SecretDisposer instance;

 protected:
  void disposeImpl(void* first, size_t elementSize, size_t elementCount, size_t capacity,
                   void (*)(void*)) const override {
    zeroize(kj::arrayPtr(static_cast<kj::byte*>(first), elementSize * capacity));
    release(first);
  }
  virtual void release(void* first) const { ::operator delete(first); }
};
inline const SecretDisposer SecretDisposer::instance;

inline kj::Array<kj::byte> secretArray(size_t size,
                                       const SecretDisposer& disposer = SecretDisposer::instance) {
  return kj::Array<kj::byte>(static_cast<kj::byte*>(::operator new(size)), size, disposer);
}
inline kj::Array<kj::byte> secretArray(kj::ArrayPtr<const kj::byte> from,
                                       const SecretDisposer& disposer = SecretDisposer::instance) {
  auto copy = secretArray(from.size(), disposer);
  if (from.size() > 0) memcpy(copy.begin(), from.begin(), from.size());
  return copy;
}

}  // namespace talos
