// link: machined-storage machined-parse common-disk
// The first bytes of a disk that somebody put into the machine.
#include <kj/debug.h>

#include <string.h>

#include "common/disk/gpt.h"
#include "machined/foreign/foreign.h"
#include "machined/parse/partition-table.h"
#include "machined/parse/superblock.h"
#include "machined/storage/device-events.h"
#include "machined/storage/disks.h"

namespace {

// A table that can be read can be replaced, and is then the one that was written.
void tryTable(const uint8_t* data, size_t size, unsigned sectorSize) {
  namespace gpt = talos::gpt;
  auto on = [](kj::ArrayPtr<const kj::byte> disk) -> gpt::ReadBytes {
    return [disk](uint64_t offset, size_t wanted) {
      auto begin = kj::min(offset, disk.size());
      return kj::heapArray<const kj::byte>(
          disk.slice(begin, begin + kj::min(wanted, disk.size() - begin)));
    };
  };
  KJ_IF_MAYBE (table, gpt::read(on(kj::arrayPtr(data, size)), sectorSize)) {
    table->sectors = (1u << 20) / sectorSize;
    kj::Vector<gpt::Write> steps;
    auto refused = kj::runCatchingExceptions(
        [&]() { steps = gpt::writes(*table, sectorSize, *table); });  // no room for two lists
    if (refused != nullptr) return;
    auto disk = kj::heapArray<kj::byte>(1u << 20);
    memset(disk.begin(), 0, disk.size());
    memcpy(disk.begin(), data, kj::min(size, disk.size()));
    for (auto& step : steps) {
      memcpy(disk.begin() + step.offset, step.bytes.begin(), step.bytes.size());
    }
    auto again = KJ_ASSERT_NONNULL(gpt::read(on(disk), sectorSize));
    KJ_ASSERT(again.inForce && again.partitions.size() == table->partitions.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace talos::machined;
  using talos::parse::lostPartitionTable, talos::parse::readSuperblock;
  unsigned reads = 0;
  auto read = [&](uint64_t offset, size_t wanted) {
    KJ_ASSERT(wanted <= 65536 && ++reads <= kMostSuperblockReads, "the promise of superblock.h");
    if (offset >= size) return kj::Array<const kj::byte>();
    return kj::heapArray<const kj::byte>(data + offset, kj::min(wanted, size - offset));
  };
  auto found = readSuperblock(read);
  lostPartitionTable(read);
  for (unsigned sectorSize : {512u, 4096u}) tryTable(data, size, sectorSize);
  KJ_IF_MAYBE (f, found) {
    for (unsigned char c : f->label) KJ_ASSERT(c >= 0x20 && c != 0x7f, "a label is one clean line");
  }
  for (unsigned char c : serialOfPage(kj::arrayPtr(reinterpret_cast<const char*>(data), size))) {
    KJ_ASSERT(c >= 0x20 && c < 0x7f, "a serial number is one clean line");
  }
  concernsDisks(kj::arrayPtr(reinterpret_cast<const char*>(data), size));
  return 0;
}
