// link: machined-hardware
// A disk's answers about its health: the log page of NVMe, the sense data of ATA.
#include <kj/debug.h>
#include <stddef.h>
#include <stdint.h>

#include "machined/hardware/disk-health.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace talos::machined;
  auto copy = kj::heapArray<kj::byte>(data, size);  // a sanitizer sees its end
  KJ_IF_MAYBE (health, decodeNvmeHealth(copy)) {
    KJ_ASSERT(health->temperature > -273);
    KJ_ASSERT(warningsOf(*health).empty() == (copy[0] == 0));
  }
  decodeAtaVerdict(copy);
  return 0;
}
