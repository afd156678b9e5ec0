// link: machined-disk-encryption
// The firmware's table of the machine, of which keys are made.
#include <kj/debug.h>
#include <stddef.h>
#include <stdint.h>

#include "machined/disk/encryption/node-id-passphrase.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace talos::machined;
  auto copy = kj::heapArray<kj::byte>(data, size);  // a sanitizer sees its end
  KJ_IF_MAYBE (uuid, systemUuidIn(copy)) {
    auto text = uuidText(*uuid);
    KJ_ASSERT(text.size() == 36);
    weaknessOf(text);
  }
  return 0;
}
