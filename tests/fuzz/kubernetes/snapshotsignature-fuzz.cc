// The signature of a snapshot of etcd, which comes with it from a store or from an unknown hand:
// `talosctl cluster recover` reads it before it knows who made it.
//
// link: common-etcd-data
#include <stdlib.h>

#include "common/base/error.h"
#include "common/etcd-data/snapshot-signature.h"
#include "common/tls/pki.h"

using namespace talos;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* authority =
      new pki::CertificateAndKey(pki::makeAuthority({.keyType = pki::KeyType::kEcdsaP256}));
  bool accepted = false;
  auto failure = kj::runCatchingExceptions([&] {
    verifySnapshot(kj::arrayPtr(data, size), authority->certificate);
    accepted = true;
  });
  // Nobody can sign by a CA of this process.
  if (accepted || kindOf(KJ_ASSERT_NONNULL(failure)) != ErrorKind::kInvalidArgument) abort();
  return 0;
}
