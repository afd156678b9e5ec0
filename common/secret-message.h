// Messages that hold secrets: their memory is zeroed before it is given back.
#pragma once

#include <capnp/message.h>

#include "common/file.h"

namespace talos {

inline void zeroize(capnp::MessageBuilder& message) {
  for (auto segment : message.getSegmentsForOutput()) {
    auto bytes = segment.asChars();
    zeroize(kj::arrayPtr(const_cast<char*>(bytes.begin()), bytes.size()));
  }
}

// One that is zeroed at the end of its life.
class SecretMessage {
 public:
  SecretMessage() = default;
  ~SecretMessage() noexcept(false) { zeroize(builder); }
  KJ_DISALLOW_COPY_AND_MOVE(SecretMessage);

  capnp::MallocMessageBuilder builder;
};

}  // namespace talos
