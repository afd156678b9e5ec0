// link: talosctl-debug
// A core file as a node answers it: Zstandard's bytes, damaged or made to grow.
#include <kj/debug.h>

#include "common/base/error.h"
#include "talosctl/debug/crash-text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace talos;
  auto failure = kj::runCatchingExceptions([&] {
    auto core = talosctl::unpackedCore(kj::arrayPtr(data, size));
    KJ_ASSERT(core.size() <= talosctl::kMostCore);
  });
  KJ_IF_MAYBE (e, failure) {
    KJ_ASSERT(kindOf(*e) == ErrorKind::kInternal, *e);
  }
  return 0;
}
