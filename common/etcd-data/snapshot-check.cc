#include "common/etcd-data/snapshot-check.h"

#include <string.h>

#include "common/base/error.h"

namespace talos {
namespace {

constexpr uint64_t kPage = 512, kTrailer = Sha256::kBytes;
// The first page of bbolt: its header, then the magic number, little-endian.
constexpr size_t kFirstMagicAt = 16;
constexpr kj::byte kFirstMagic[] = {0xed, 0xda, 0x0c, 0xed};

[[noreturn]] void refuseSnapshot(kj::StringPtr problem) {
  fail(ErrorKind::kInvalidArgument, kj::str("the snapshot ", problem));
}

// Returns the size of the database in a snapshot of this size.
uint64_t checkSize(uint64_t size, bool skipHashCheck) {
  if (size < 2 * kPage) refuseSnapshot(kj::str("has ", size, " bytes, which is too short"));
  auto rest = size % kPage;
  if (rest != 0 && rest != kTrailer) {
    refuseSnapshot(kj::str("has ", size, " bytes: it was cut off, or is not a snapshot of etcd"));
  }
  if (rest == 0 && !skipHashCheck) {
    refuseSnapshot(
        "has no SHA-256 behind it: for a copy of the database file use --recover-skip-hash-check");
  }
  return size - rest;
}

}  // namespace

SnapshotCheck::SnapshotCheck(uint64_t size, bool skipHashCheck)
    : database(checkSize(size, skipHashCheck)), skip(skipHashCheck) {}

void SnapshotCheck::add(kj::ArrayPtr<const kj::byte> bytes) {
  if (received == 0 &&
      (bytes.size() < kFirstMagicAt + sizeof kFirstMagic ||
       memcmp(bytes.begin() + kFirstMagicAt, kFirstMagic, sizeof kFirstMagic) != 0)) {
    refuseSnapshot("is not a database of etcd");
  }
  auto own = kj::min(bytes.size(), received < database ? database - received : 0);
  hash.add(bytes.slice(0, own));
  for (auto byte : bytes.slice(own, bytes.size())) {
    KJ_REQUIRE(trailed < sizeof trailer, "more bytes than the size said");
    trailer[trailed++] = byte;
  }
  received += bytes.size();
}

void SnapshotCheck::finish() {
  computed = hash.finish();
  if (!skip && computed != kj::arrayPtr(trailer, trailed)) {
    refuseSnapshot("is damaged: its SHA-256 is not the one behind it");
  }
}

}  // namespace talos
