// link: machined-disk-installer
// The boot loader's environment on BOOT, which a power cut, a bad disk or an attacker with the disk
// may have changed: unchanged input, or input with its head and its size put right.
#include <kj/debug.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "machined/disk/installer/boot-files.h"
#include "tests/fuzz/fuzz-target.h"

using namespace talos::install;

namespace {

constexpr size_t kEnvironmentBytes = 1024;
constexpr kj::StringPtr kHead = "# GRUB Environment Block\n"_kj;

// Values that were read are in bounds, and are read again as they were written.
void check(kj::ArrayPtr<const char> text) {
  KJ_IF_MAYBE (state, readSlots(text)) {
    KJ_ASSERT(text.size() == kEnvironmentBytes);
    KJ_ASSERT(state->tries <= kMostTries);
    KJ_ASSERT(state->healthTimeoutS > 0 && state->healthTimeoutS <= kMostHealthTimeoutS);
    auto again = KJ_ASSERT_NONNULL(readSlots(writeSlots(*state)));
    KJ_ASSERT(again.confirmed == state->confirmed && again.attempt == state->attempt);
    KJ_ASSERT(again.tries == state->tries && again.healthTimeoutS == state->healthTimeoutS);
  }
}

}  // namespace

FUZZ_TARGET(slots) {
  auto text = kj::heapArray<char>(reinterpret_cast<const char*>(data), size);
  check(text);
  auto block = kj::heapArray<char>(kEnvironmentBytes);
  memset(block.begin(), '#', block.size());
  memcpy(block.begin(), kHead.begin(), kHead.size());
  memcpy(block.begin() + kHead.size(), text.begin(),
         kj::min(text.size(), block.size() - kHead.size()));
  check(block);
  return 0;
}
