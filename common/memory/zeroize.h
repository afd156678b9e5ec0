// Overwrites memory that may hold a secret before it is freed: the only means for it in this code.
// The compiler does not remove it.
#pragma once

#include <capnp/message.h>
#include <kj/array.h>
#include <string.h>

namespace talos {

inline void zeroize(kj::ArrayPtr<kj::byte> secret) {
  if (secret.size() > 0) explicit_bzero(secret.begin(), secret.size());
}
inline void zeroize(kj::ArrayPtr<char> secret) {
  zeroize(secret.asBytes());
}
// The message must not be read afterwards.
inline void zeroize(capnp::MessageBuilder& message) {
  for (auto segment : message.getSegmentsForOutput()) {
    auto bytes = segment.asBytes();
    zeroize(kj::arrayPtr(const_cast<kj::byte*>(bytes.begin()), bytes.size()));
  }
}

// Zeroes a received message: the code that made it frees its memory without overwriting it. The
// bytes must not be read afterwards.
inline void zeroizeReceived(kj::ArrayPtr<const kj::byte> secret) {
  zeroize(kj::arrayPtr(const_cast<kj::byte*>(secret.begin()), secret.size()));
}

// A message that is zeroed when it is destroyed, and is otherwise an ordinary one.
class SecretMessage final : public capnp::MallocMessageBuilder {
 public:
  ~SecretMessage() noexcept(false) { zeroize(*this); }
};

}  // namespace talos
