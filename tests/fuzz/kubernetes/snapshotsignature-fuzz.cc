// The signature of a snapshot of etcd, which comes with the snapshot from a store or an unknown
// source: `talosctl cluster recover` reads it before it knows its maker.
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
  // No input can be signed by a CA of this process.
  if (accepted || kindOf(KJ_ASSERT_NONNULL(failure)) != ErrorKind::kInvalidArgument) abort();
  return 0;
}
