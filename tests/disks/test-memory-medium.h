// A medium in memory.
#pragma once

#include <string.h>

#include "common/base/error.h"
#include "tests/disks/volatile-disk.h"

namespace talos::disk {

class MemoryMedium final : public Medium {
 public:
  explicit MemoryMedium(size_t size) : bytes(kj::heapArray<kj::byte>(size)) {
    memset(bytes.begin(), 0, size);
  }
  kj::Array<kj::byte> bytes;
  bool full = false;

  uint64_t size() const override { return bytes.size(); }
  void read(uint64_t offset, kj::ArrayPtr<kj::byte> into) override {
    memcpy(into.begin(), bytes.slice(offset, offset + into.size()).begin(), into.size());
  }
  void write(uint64_t offset, kj::ArrayPtr<const kj::byte> from) override {
    if (full) fail(ErrorKind::kResourceExhausted, "full");
    memcpy(bytes.slice(offset, offset + from.size()).begin(), from.begin(), from.size());
  }
  void zero(uint64_t offset, uint64_t length) override {
    memset(bytes.slice(offset, offset + length).begin(), 0, length);
  }
  // Sectors as extents, so that there are many.
  kj::Maybe<Range> content(Range range) override {
    for (uint64_t at = range.begin; at < range.end; ++at) {
      if (bytes[at] == 0) continue;
      auto sector = at / kSector * kSector;
      return Range{kj::max(range.begin, sector), kj::min(range.end, sector + kSector)};
    }
    return nullptr;
  }
};

}  // namespace talos::disk
