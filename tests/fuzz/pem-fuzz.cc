// Keys, certificates and requests as PEM text: from a config, a client, a worker that asks for a
// signature. Any text must end in a value or in InvalidArgument.
#include <kj/debug.h>
#include <kj/exception.h>

#include "common/error.h"
#include "common/openssl.h"

namespace {

template <typename Read>
void expectRefusalOrValue(Read&& read) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { read(); })) {
    KJ_ASSERT(talos::kindOf(*e) == talos::ErrorKind::kInvalidArgument, *e);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto text = kj::heapString(reinterpret_cast<const char*>(data), size);
  expectRefusalOrValue([&] { talos::pki::inspect(text); });
  expectRefusalOrValue([&] { talos::pki::inspectRequest(text); });
  expectRefusalOrValue([&] { talos::pki::readKey(text); });
  return 0;
}
