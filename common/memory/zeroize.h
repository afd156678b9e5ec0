// Overwrites what may hold a secret before its memory is given back: the one way to do that. The
// compiler does not leave it out.
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

// Of a message that was received: its memory is given back by the one who made it, as it is. Nobody
// reads these bytes afterwards.
inline void zeroizeReceived(kj::ArrayPtr<const kj::byte> secret) {
  zeroize(kj::arrayPtr(const_cast<kj::byte*>(secret.begin()), secret.size()));
}

// A message that is zeroed at the end of its life, and is otherwise an ordinary one.
class SecretMessage final : public capnp::MallocMessageBuilder {
 public:
  ~SecretMessage() noexcept(false) { zeroize(*this); }
};

}  // namespace talos
