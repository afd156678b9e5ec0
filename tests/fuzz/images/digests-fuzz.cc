// link: machined-disk-installer
// The parts of an installer image that a node reads: the list of digests, the version, the head of
// the kernel.
#include <kj/debug.h>
#include <stddef.h>
#include <stdint.h>

#include "machined/disk/installer/digest-list.h"
#include "machined/disk/installer/kernel-image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace talos::install;
  auto text =
      kj::heapArray<char>(reinterpret_cast<const char*>(data), size);  // a sanitizer sees its end
  (void)kj::runCatchingExceptions([&] { DigestList(text).check("vmlinuz", ""); });
  (void)kj::runCatchingExceptions([&] { KJ_ASSERT(imageVersion(text).size() <= 64); });
  for (auto arch : {"amd64", "arm64"}) {
    (void)kj::runCatchingExceptions([&] { checkKernel(text.asBytes(), size, arch); });
  }
  return 0;
}
