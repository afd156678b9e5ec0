// link: machined-disk-volumes machined-confined-parser common-disk
// The first bytes of a foreign disk. Most of such a disk is zeros, so an input holds the rest: the
// length of the disk, whether this program puts the checksums of its partition table right (the
// fuzzer cannot find them by chance), and pieces, each with its place and its length.
#include <capnp/message.h>
#include <kj/debug.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "common/disk/gpt.h"
#include "common/text/plain-text.h"
#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/confined/parser/disk-probe.h"
#include "machined/confined/parser/partition-table.h"
#include "machined/confined/parser/superblock.h"
#include "machined/disk/devices/device-events.h"
#include "machined/disk/devices/storage-server.h"
#include "tests/fuzz/fuzz-target.h"

namespace {

using Bytes = kj::ArrayPtr<kj::byte>;

constexpr size_t kHead = 3, kUnit = 32;  // bytes of the input before its pieces; where those begin
constexpr size_t kWritten = 128u << 10;  // a disk with room for two lists and their copy

uint64_t get(Bytes bytes, size_t at, unsigned size) {
  uint64_t value = 0;
  for (unsigned i = size; i > 0; --i) value = value << 8 | bytes[at + i - 1];
  return value;
}
void putChecksum(Bytes bytes, size_t at, Bytes of) {
  auto sum = static_cast<uint32_t>(crc32(0, of.begin(), static_cast<uInt>(of.size())));
  memcpy(bytes.begin() + at, &sum, sizeof sum);
}

void seal(Bytes disk, size_t sectorSize) {
  if (disk.size() < 2 * sectorSize) return;
  auto header = disk.slice(sectorSize, 2 * sectorSize);
  auto size = get(header, 12, 4), first = get(header, 72, 8);
  auto bytes = get(header, 80, 4) * get(header, 84, 4);
  if (memcmp(header.begin(), "EFI PART", 8) != 0 || size < 92 || size > sectorSize) return;
  if (first < disk.size() / sectorSize && bytes <= disk.size() - first * sectorSize) {
    putChecksum(header, 88, disk.slice(first * sectorSize, first * sectorSize + bytes));
  }
  memset(header.begin() + 16, 0, 4);
  putChecksum(header, 16, header.slice(0, size));
}

kj::Array<kj::byte> diskOf(const uint8_t* data, size_t size) {
  auto disk = kj::heapArray<kj::byte>(size_t{data[0]} | size_t{data[1]} << 8);
  memset(disk.begin(), 0, disk.size());
  for (size_t at = kHead; at + 3 <= size;) {
    size_t place = (size_t{data[at]} | size_t{data[at + 1]} << 8) * kUnit;
    size_t length = kj::min(size_t{data[at + 2]}, size - at - 3);
    if (place < disk.size()) {
      memcpy(disk.begin() + place, data + at + 3, kj::min(length, disk.size() - place));
    }
    at += 3 + length;
  }
  if ((data[2] & 1) != 0) {
    for (size_t sectorSize : {512u, 4096u}) seal(disk, sectorSize);
  }
  return disk;
}

// Up to the end of the disk it is the disk itself, so that a sanitizer sees the end of either.
kj::Array<const kj::byte> partOf(Bytes disk, uint64_t offset, size_t wanted) {
  auto begin = kj::min(offset, disk.size());
  auto part = disk.slice(begin, begin + kj::min(wanted, disk.size() - begin));
  if (part.end() != disk.end()) return kj::heapArray<const kj::byte>(part);
  return kj::Array<const kj::byte>(part.begin(), part.size(), kj::NullArrayDisposer::instance);
}

// libblkid reads a file: this one, in memory.
void probe(Bytes disk) {
  static const int file = memfd_create("disk", MFD_CLOEXEC);
  KJ_SYSCALL(ftruncate(file, 0));
  KJ_SYSCALL(pwrite(file, disk.begin(), disk.size(), 0));
  capnp::MallocMessageBuilder message;
  auto found = message.initRoot<talos::rpc::FoundOnDisk>();
  kj::runCatchingExceptions([&]() { talos::parse::probeDisk(file, found); });
  auto clean = [](kj::StringPtr text) {
    KJ_ASSERT(talos::isPlainText(text), "the promise of disk-probe.h");
  };
  clean(found.getTable());
  for (auto name : found.getPartitions()) clean(name);
  for (auto volume : found.getVolumes()) {
    clean(volume.getType());
    clean(volume.getLabel());
  }
}

// Checks that a readable table can be replaced, and that the new table is read then.
void tryTable(Bytes begin, unsigned sectorSize) {
  namespace gpt = talos::gpt;
  auto on = [](Bytes disk) -> gpt::ReadBytes {
    return [disk](uint64_t offset, size_t wanted) { return partOf(disk, offset, wanted); };
  };
  KJ_IF_MAYBE (table, gpt::read(on(begin), sectorSize)) {
    table->sectors = kWritten / sectorSize;
    kj::Vector<gpt::Write> steps;
    auto refused = kj::runCatchingExceptions(
        [&]() { steps = gpt::writes(*table, sectorSize, *table); });  // no room for two lists
    if (refused != nullptr) return;
    auto disk = kj::heapArray<kj::byte>(kWritten);
    memset(disk.begin(), 0, disk.size());
    memcpy(disk.begin(), begin.begin(), begin.size());
    for (auto& step : steps) {
      memcpy(disk.begin() + step.offset, step.bytes.begin(), step.bytes.size());
    }
    auto again = KJ_ASSERT_NONNULL(gpt::read(on(disk), sectorSize));
    KJ_ASSERT(again.inForce && again.partitions.size() == table->partitions.size());
  }
}

}  // namespace

FUZZ_TARGET(volume) {
  using namespace talos::machined;
  using talos::parse::lostPartitionTable, talos::parse::readSuperblock;
  if (size < kHead) return 0;
  auto disk = diskOf(data, size);
  unsigned reads = 0;
  auto read = [&](uint64_t offset, size_t wanted) {
    KJ_ASSERT(wanted <= 65536 && ++reads <= kMostSuperblockReads, "the promise of superblock.h");
    return partOf(disk, offset, wanted);
  };
  auto found = readSuperblock(read);
  lostPartitionTable(read);
  probe(disk);
  for (unsigned sectorSize : {512u, 4096u}) tryTable(disk, sectorSize);
  KJ_IF_MAYBE (f, found) {
    for (unsigned char c : f->label) KJ_ASSERT(c >= 0x20 && c != 0x7f, "a label is one clean line");
  }
  auto text = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  KJ_ASSERT(talos::isPlainText(serialOfPage(text)), "a serial number is one clean line");
  concernsDisks(text);
  return 0;
}
