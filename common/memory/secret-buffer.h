// Bytes that arrive in pieces and may hold a secret: outgrown memory, and the memory left at the
// end, is overwritten before it is freed. The caller must zeroize() the result.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <string.h>

#include "common/memory/zeroize.h"

namespace talos {

class SecretBuffer {
 public:
  SecretBuffer() = default;
  ~SecretBuffer() noexcept(false) { zeroize(bytes); }
  KJ_DISALLOW_COPY_AND_MOVE(SecretBuffer);

  size_t size() const { return filled; }
  void add(kj::ArrayPtr<const char> piece) {
    if (bytes.size() - filled < piece.size()) {
      auto larger = kj::heapArray<char>(kj::max(filled + piece.size(), 2 * bytes.size()));
      if (filled > 0) memcpy(larger.begin(), bytes.begin(), filled);
      zeroize(bytes);
      bytes = kj::mv(larger);
    }
    if (piece.size() > 0) memcpy(bytes.begin() + filled, piece.begin(), piece.size());
    filled += piece.size();
  }
  kj::Array<char> copy() const { return kj::heapArray(bytes.slice(0, filled)); }
  kj::String copyText() const { return kj::heapString(bytes.slice(0, filled)); }

 private:
  kj::Array<char> bytes;
  size_t filled = 0;
};

}  // namespace talos
