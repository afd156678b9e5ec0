#include "machined/disk/image/xfs-inodes.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

namespace talos::install {
namespace {

constexpr size_t kInode = 512, kWindow = 1u << 20;
// Offsets within an inode. Numbers are big-endian, except the checksum.
constexpr size_t kMode = 2, kVersion = 4, kAccessed = 32, kModified = 40, kChanged = 48,
                 kGeneration = 92, kChecksum = 100, kCreated = 144;
constexpr size_t kTimes[] = {kAccessed, kModified, kChanged, kCreated};

// CRC-32C (RFC 3720, B.4), whose polynomial is written with its lowest bit first.
constexpr std::array<uint32_t, 256> kCrcTable = [] {
  std::array<uint32_t, 256> table = {};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t value = i;
    for (unsigned bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0x82f63b78u : 0);
    table[i] = value;
  }
  return table;
}();

uint32_t inodeChecksum(kj::ArrayPtr<const kj::byte> inode) {
  uint32_t value = ~0u;
  for (size_t i = 0; i < kInode; ++i) {
    kj::byte each = i >= kChecksum && i < kChecksum + 4 ? 0 : inode[i];
    value = kCrcTable[(value ^ each) & 0xff] ^ value >> 8;
  }
  return ~value;
}

uint32_t storedChecksum(kj::ArrayPtr<const kj::byte> inode) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= uint32_t{inode[kChecksum + i]} << 8 * i;
  return value;
}

void putBig(kj::ArrayPtr<kj::byte> inode, size_t at, uint32_t value) {
  for (size_t i = 0; i < 4; ++i) inode[at + i] = static_cast<kj::byte>(value >> 8 * (3 - i));
}

bool isInode(kj::ArrayPtr<const kj::byte> bytes) {
  return bytes[0] == 'I' && bytes[1] == 'N' && bytes[kVersion] == 3 &&
         storedChecksum(bytes) == inodeChecksum(bytes);
}

}  // namespace

size_t setInodeDates(kj::ArrayPtr<kj::byte> bytes, uint32_t date) {
  size_t count = 0;
  for (size_t at = 0; at + kInode <= bytes.size(); at += kInode) {
    auto inode = bytes.slice(at, at + kInode);
    if (!isInode(inode)) continue;
    ++count;
    putBig(inode, kGeneration, 1);
    bool used = inode[kMode] != 0 || inode[kMode + 1] != 0;
    for (auto time : kTimes) {
      putBig(inode, time, used ? date : 0);
      putBig(inode, time + 4, 0);  // nanoseconds
    }
    auto sum = inodeChecksum(inode);
    for (size_t i = 0; i < 4; ++i) inode[kChecksum + i] = static_cast<kj::byte>(sum >> 8 * i);
  }
  return count;
}

void setInodeDates(kj::StringPtr file, uint32_t date) {
  int opened;
  KJ_SYSCALL(opened = open(file.cStr(), O_RDWR | O_CLOEXEC), file);
  kj::AutoCloseFd fd(opened);
  auto window = kj::heapArray<kj::byte>(kWindow);
  size_t found = 0;
  for (off_t at = 0;;) {
    ssize_t n;
    KJ_SYSCALL(n = pread(fd, window.begin(), window.size(), at), file);
    if (n == 0) break;
    KJ_REQUIRE(n % kInode == 0, "a file system with a part of a sector", file);
    auto bytes = window.slice(0, static_cast<size_t>(n));
    if (auto count = setInodeDates(bytes, date); count > 0) {
      found += count;
      ssize_t written;
      KJ_SYSCALL(written = pwrite(fd, bytes.begin(), bytes.size(), at), file);
      KJ_REQUIRE(written == n, "short write", file);
    }
    at += n;
  }
  KJ_REQUIRE(found > 0, "no inodes were found in a new XFS", file);
}

}  // namespace talos::install
