// Reads the first bytes of a stream and puts them back.
#pragma once

#include <kj/async-io.h>

namespace talos {

struct Peeked {
  kj::Array<kj::byte> bytes;          // fewer if the stream ends earlier
  kj::Own<kj::AsyncIoStream> stream;  // starts with these bytes
};
kj::Promise<Peeked> peek(kj::Own<kj::AsyncIoStream> stream, size_t bytes);

}  // namespace talos
