// link: machined-disk-installer
// A boot option of the firmware, and its order.
#include <kj/debug.h>
#include <stddef.h>
#include <stdint.h>

#include "machined/disk/installer/efi-boot-option.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
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
