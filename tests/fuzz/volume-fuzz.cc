// link: machined-storage machined-parse
// The first bytes of a disk that somebody put into the machine.
#include <kj/debug.h>

#include "machined/foreign/foreign.h"
#include "machined/parse/partition-table.h"
#include "machined/parse/superblock.h"
#include "machined/storage/device-events.h"
#include "machined/storage/disks.h"

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
  KJ_IF_MAYBE (f, found) {
    for (unsigned char c : f->label) KJ_ASSERT(c >= 0x20 && c != 0x7f, "a label is one clean line");
  }
  for (unsigned char c : serialOfPage(kj::arrayPtr(reinterpret_cast<const char*>(data), size))) {
    KJ_ASSERT(c >= 0x20 && c < 0x7f, "a serial number is one clean line");
  }
  concernsDisks(kj::arrayPtr(reinterpret_cast<const char*>(data), size));
  return 0;
}
