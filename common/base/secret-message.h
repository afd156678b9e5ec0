// Messages that hold secrets: their memory is zeroed before it is given back.
#pragma once

#include <capnp/message.h>

#include "common/base/file.h"

namespace talos {

inline void zeroize(capnp::MessageBuilder& message) {
  for (auto segment : message.getSegmentsForOutput()) {
    auto bytes = segment.asChars();
    zeroize(kj::arrayPtr(const_cast<char*>(bytes.begin()), bytes.size()));
  }
}

// One that is zeroed at the end of its life; an ordinary message to whoever is given it.
class SecretMessage final : public capnp::MallocMessageBuilder {
 public:
  ~SecretMessage() noexcept(false) { zeroize(*this); }
};

}  // namespace talos
