// The layout of a message on the socket between the brain and a confined program: the number of
// 8-byte words in four bytes, then the message, flat (capnp/serialize.h).
#pragma once

#include <capnp/serialize.h>
#include <stdint.h>

namespace talos::machined {

constexpr size_t kMostFrameWords = 5u << 20;  // 40 MiB: the largest answer, and its pointers

// Returns the frame's words. The caller zeroes them if they may hold secrets.
inline kj::Array<capnp::word> frameOf(capnp::MessageBuilder& message) {
  auto size = capnp::computeSerializedSizeInWords(message);
  KJ_REQUIRE(size <= kMostFrameWords, "too large for a frame", size);
  auto flat = capnp::messageToFlatArray(message);
  return flat;
}

// Returns limits for a message of `words`: readers may read its texts and lists several times, but
// the sender cannot cause unlimited work.
inline capnp::ReaderOptions readerOptions(size_t words) {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = 8 * words + 1024;
  options.nestingLimit = 64;
  return options;
}

}  // namespace talos::machined
