// Keys, certificates and requests as PEM text: from a config, a client, a worker that requests a
// signature. Any text must end in a value or in InvalidArgument. An input that is no PEM is also
// tried as the content of a block: its first byte chooses the label.
#include <kj/debug.h>
#include <kj/encoding.h>
#include <kj/exception.h>

#include "common/base/error.h"
#include "common/tls/openssl.h"

namespace {

template <typename Read>
void expectRefusalOrValue(Read&& read) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { read(); })) {
    KJ_ASSERT(talos::kindOf(*e) == talos::ErrorKind::kInvalidArgument, *e);
  }
}

void readAll(kj::StringPtr text) {
  expectRefusalOrValue([&] { talos::pki::inspect(text); });
  expectRefusalOrValue([&] { talos::pki::inspectRequest(text); });
  expectRefusalOrValue([&] { talos::pki::readKey(text); });
}

kj::String wrap(kj::byte choice, kj::ArrayPtr<const kj::byte> der) {
  constexpr kj::StringPtr kLabels[] = {"CERTIFICATE"_kj, "CERTIFICATE REQUEST"_kj,
                                       "ED25519 PRIVATE KEY"_kj, "EC PRIVATE KEY"_kj,
                                       "RSA PRIVATE KEY"_kj};
  auto label = kLabels[choice % kj::size(kLabels)];
  return kj::str("-----BEGIN ", label, "-----\n", kj::encodeBase64(der, true), "-----END ", label,
                 "-----\n");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr kj::StringPtr kBegin = "-----BEGIN"_kj;
  auto text = kj::heapString(reinterpret_cast<const char*>(data), size);
  readAll(text);
  if (size > 1 && !text.startsWith(kBegin))
    readAll(wrap(data[0], kj::arrayPtr(data + 1, size - 1)));
  return 0;
}
