// Writes a ZIP archive: a format that users can send to each other and open anywhere. Deflated by
// zlib, times in UTC, mode 0600. No ZIP64: archives that would exceed the format's limits of 4 GiB
// and 65 535 files are refused.
//
// The archive is complete only after finish(). The file left by a crash is not mistaken for a
// complete archive by any reader, because the list of entries is at the end.
#pragma once

#include <kj/io.h>
#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>

namespace talos {

class ZipWriter {
 public:
  // `out` must outlive this object.
  ZipWriter(kj::OutputStream& out, kj::Date now);
  KJ_DISALLOW_COPY_AND_MOVE(ZipWriter);

  // Adds a file. `name`: a relative path without "..". Throws InvalidArgument at a limit of the
  // format.
  void add(kj::StringPtr name, kj::ArrayPtr<const char> content);
  void finish();
  size_t files() const { return entries.size(); }
  uint64_t bytes() const { return written; }

 private:
  struct Entry {
    kj::String name;
    uint32_t crc, packed, size, offset;
  };
  kj::OutputStream& out;
  uint32_t dosTime;
  uint64_t written = 0;
  kj::Vector<Entry> entries;

  void write(kj::ArrayPtr<const kj::byte> bytes);
};

}  // namespace talos
