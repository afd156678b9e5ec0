// link: machined-install
// The list of digests and the version of an installer image.
#include <kj/debug.h>
#include <stddef.h>
#include <stdint.h>

#include "machined/install/digest-list.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace talos::install;
  auto text =
      kj::heapArray<char>(reinterpret_cast<const char*>(data), size);  // a sanitizer sees its end
  (void)kj::runCatchingExceptions([&] { DigestList(text).check("vmlinuz", ""); });
  (void)kj::runCatchingExceptions([&] { KJ_ASSERT(imageVersion(text).size() <= 64); });
  return 0;
}
