// link: machined-upgrade
// The versions in two images, one of which may be the floor: they have an order, whatever they are.
#include <kj/debug.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "machined/upgrade/version-floor.h"

using namespace talos::machined;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto text = kj::heapString(reinterpret_cast<const char*>(data), size);
  for (char& c : text) {
    if (c == '\0') c = '?';
  }
  auto split = strcspn(text.cStr(), "\n");
  auto left = kj::heapString(text.slice(0, split));
  auto right = kj::heapString(text.slice(kj::min(split + 1, size)));
  auto older = isOlder(left, right), newer = isOlder(right, left);
  KJ_ASSERT((older == nullptr) == (newer == nullptr));
  KJ_ASSERT(!(older.orDefault(false) && newer.orDefault(false)));
  KJ_ASSERT(!isOlder(left, left).orDefault(false));
  // Raising the floor never lowers it, and the version that raised it is not below it.
  auto raised = raisedFloor(left, right);
  KJ_ASSERT(!isOlder(raised, left).orDefault(false));
  KJ_ASSERT(!isOlder(raised, right).orDefault(false));
  bool known = isOlder(right, right) != nullptr;
  KJ_ASSERT(!known || raised == left || belowFloor(right, raised) == nullptr);
  return 0;
}
