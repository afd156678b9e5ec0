// Overwriting what may hold a secret before its memory is given back. Costs a memset, so it is done
// wherever a resource passes, sensitive or not.
#pragma once

#include <capnp/message.h>
#include <kj/array.h>
#include <string.h>

namespace talos::machined {

inline void erase(kj::ArrayPtr<kj::byte> bytes) {
  explicit_bzero(bytes.begin(), bytes.size());
}

// The message must not be read afterwards.
inline void erase(capnp::MessageBuilder& message) {
  for (auto segment : message.getSegmentsForOutput()) {
    auto bytes = segment.asBytes();
    explicit_bzero(const_cast<kj::byte*>(bytes.begin()), bytes.size());
  }
}

}  // namespace talos::machined
