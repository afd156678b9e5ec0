// A tar archive's parts (POSIX ustar with pax headers), and gzip as a stream. Pure: bytes in, bytes
// out.
//
// Values that do not fit a ustar header (names over 100 bytes or not in ASCII, sizes from 8 GiB,
// times before 1970, large ids) go into a pax header before it, which every tar of the last twenty
// years reads.
#pragma once

#include <kj/memory.h>
#include <kj/string.h>
#include <kj/vector.h>

namespace talos {

struct TarHeader {
  enum class Kind { kFile, kDirectory, kSymlink };
  Kind kind = Kind::kFile;
  kj::StringPtr name;       // relative, without a slash at the end
  kj::StringPtr link = "";  // target of a symlink
  uint32_t mode = 0644;     // permission bits
  uint32_t uid = 0, gid = 0;
  uint64_t size = 0;     // for a file; 0 otherwise
  int64_t modified = 0;  // seconds since 1970
};

constexpr size_t kTarBlock = 512;

// Appends the headers of an entry. The caller appends its content, filled with zeros to a whole
// block.
void appendTarHeader(kj::Vector<kj::byte>& out, const TarHeader& entry);
// Returns the number of zeros after a content of this size.
inline size_t tarPadding(uint64_t size) {
  return (kTarBlock - size % kTarBlock) % kTarBlock;
}
// Number of zeros at the end of an archive.
constexpr size_t kTarEnd = 2 * kTarBlock;

// gzip (RFC 1952) at the fastest level: a node needs its processors for other work, and the network
// is fast enough.
class Gzip {
 public:
  Gzip();
  ~Gzip() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Gzip);

  // Appends the finished bytes to `out`.
  void write(kj::ArrayPtr<const kj::byte> bytes, kj::Vector<kj::byte>& out);
  void finish(kj::Vector<kj::byte>& out);

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos
