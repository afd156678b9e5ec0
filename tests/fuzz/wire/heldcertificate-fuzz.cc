// The certificate and the signature by which a machine without the token requests a renewal: trustd
// parses both before it knows the sender.
//
// link: trustd-lib
#include <stdlib.h>

#include "common/base/error.h"
#include "trustd/held-certificate.h"

using namespace talos;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* authority = new pki::CertificateAndKey(pki::makeAuthority({}));
  static auto* leaf = new pki::CertificateAndKey(
      pki::issue(authority->certificate, authority->key, {.client = false}));
  auto now = kj::systemPreciseCalendarClock().now();
  auto all = kj::arrayPtr(data, size);
  auto split = size < 64 ? size : size - 64;  // an Ed25519 signature has 64
  auto check = [&](kj::ArrayPtr<const kj::byte> certificate, kj::ArrayPtr<const kj::byte> sig) {
    bool renewed = false;
    auto failure = kj::runCatchingExceptions([&] {
      trustd::verifyHeld({.certificate = certificate, .signature = sig}, "message",
                         authority->certificate, now);
      renewed = true;
    });
    // No input can hold a signature by this process's keys.
    if (renewed || kindOf(KJ_ASSERT_NONNULL(failure)) == ErrorKind::kInternal) abort();
  };
  check(all.slice(0, split), all.slice(split, size));
  check(leaf->certificate.asBytes(), all);
  return 0;
}
