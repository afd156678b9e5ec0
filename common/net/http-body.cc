#include "common/net/http-body.h"

#include "common/memory/secret-buffer.h"

namespace talos {

kj::Promise<kj::Array<char>> readBody(kj::AsyncInputStream& body, size_t most, kj::String tooLarge,
                                      ErrorKind kind) {
  SecretBuffer content;
  auto piece = kj::heapArray<char>(16384);
  KJ_DEFER(zeroize(piece));
  for (;;) {
    auto size = co_await body.tryRead(piece.begin(), 1, piece.size());
    if (size == 0) break;
    if (content.size() + size > most) fail(kind, tooLarge);
    content.add(piece.slice(0, size));
  }
  co_return content.copy();
}

}  // namespace talos
