// A medium that is a sparse file of this host. It is as durable as the host's page cache: it
// survives every fault of the machine, and not a crash of the host.
#pragma once

#include <kj/io.h>

#include "tests/disks/volatile-disk.h"

namespace talos::disk {

class FileMedium final : public Medium {
 public:
  explicit FileMedium(kj::AutoCloseFd file);  // open for reading and writing

  // Makes every write that reaches beyond this place fail from now on, as when a disk has used up
  // its spare sectors; with UINT64_MAX no write fails.
  void failWritesFrom(uint64_t place) { writable = place; }

  uint64_t size() const override { return bytes; }
  void read(uint64_t offset, kj::ArrayPtr<kj::byte> into) override;
  void write(uint64_t offset, kj::ArrayPtr<const kj::byte> from) override;
  void zero(uint64_t offset, uint64_t length) override;
  kj::Maybe<Range> content(Range range) override;

 private:
  kj::AutoCloseFd file;
  uint64_t bytes, writable = UINT64_MAX;
};

}  // namespace talos::disk
