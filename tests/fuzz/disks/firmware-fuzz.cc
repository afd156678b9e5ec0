// Tables and variables of a machine's firmware, and answers of a disk's firmware.
//
// link: machined-disk-encryption machined-disk-installer machined-hardware
#include <kj/debug.h>

#include "machined/disk/encryption/node-id-passphrase.h"
#include "machined/disk/installer/efi-boot-option.h"
#include "machined/hardware/disk-health.h"
#include "tests/fuzz/fuzz-target.h"

// The firmware's table of the machine, of which keys are made.
FUZZ_TARGET(smbios) {
  using namespace talos::machined;
  auto copy = kj::heapArray<kj::byte>(data, size);  // a sanitizer sees its end
  KJ_IF_MAYBE (uuid, systemUuidIn(copy)) {
    auto text = uuidText(*uuid);
    KJ_ASSERT(text.size() == 36);
    weaknessOf(text);
  }
  return 0;
}

// A boot option of the firmware, and its order.
FUZZ_TARGET(efioption) {
  using namespace talos::install;
  auto copy = kj::heapArray<kj::byte>(data, size);  // a sanitizer sees its end
  KJ_IF_MAYBE (option, decodeBootOption(copy)) {
    auto again = KJ_ASSERT_NONNULL(decodeBootOption(encode(*option)));
    KJ_ASSERT(again.file.path == option->file.path && again.file.id == option->file.id);
    KJ_ASSERT(again.description == option->description);
  }
  auto order = decodeBootOrder(copy);
  KJ_ASSERT(encodeBootOrder(order).asPtr() == copy.slice(0, size / 2 * 2));
  return 0;
}

// A disk's answers about its health: the log page of NVMe, the sense data of ATA.
FUZZ_TARGET(diskhealth) {
  using namespace talos::machined;
  auto copy = kj::heapArray<kj::byte>(data, size);  // a sanitizer sees its end
  KJ_IF_MAYBE (health, decodeNvmeHealth(copy)) {
    KJ_ASSERT(health->temperature > -273);
    KJ_ASSERT(warningsOf(*health).empty() == (copy[0] == 0));
  }
  decodeAtaVerdict(copy);
  return 0;
}
