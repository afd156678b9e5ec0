// Credentials that are parsed before their sender is known: PEM, certificates, join tokens.
//
// link: trustd-lib etcd-supervisor-tokens
#include <kj/debug.h>
#include <kj/encoding.h>
#include <kj/exception.h>
#include <stdlib.h>

#include "common/base/error.h"
#include "common/base/join-token.h"
#include "common/tls/client-request.h"
#include "common/tls/openssl.h"
#include "etcd-supervisor/tokens/token-record.h"
#include "tests/fuzz/fuzz-target.h"
#include "trustd/held-certificate.h"

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
  expectRefusalOrValue([&] { talos::pki::requireOneReading(text); });
  expectRefusalOrValue([&] { talos::pki::requireServerNames(text); });
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

// Keys, certificates and requests as PEM text: from a config, a client, a worker that requests a
// signature. Any text must end in a value or in InvalidArgument. An input that is no PEM is also
// tried as the content of a block: its first byte chooses the label.
FUZZ_TARGET(pem) {
  constexpr kj::StringPtr kBegin = "-----BEGIN"_kj;
  auto text = kj::heapString(reinterpret_cast<const char*>(data), size);
  readAll(text);
  if (size > 1 && !text.startsWith(kBegin))
    readAll(wrap(data[0], kj::arrayPtr(data + 1, size - 1)));
  return 0;
}

using namespace talos;

// The certificate and the signature by which a machine without the token requests a renewal: trustd
// parses both before it knows the sender.
FUZZ_TARGET(heldcertificate) {
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

// A join token as a caller of trustd shows it, and its record as etcd has it: both are read before
// their writers are known.
FUZZ_TARGET(jointoken) {
  auto text = kj::heapString(reinterpret_cast<const char*>(data), size);
  KJ_IF_MAYBE (id, joinTokenId(text)) {
    if (!isJoinTokenLike(text) || !isJoinTokenId(*id)) abort();
  }
  kj::Maybe<supervisor::TokenRecord> record;
  auto failure = kj::runCatchingExceptions([&] { record = supervisor::TokenRecord::parse(text); });
  KJ_IF_MAYBE (e, failure) {
    if (kindOf(*e) != ErrorKind::kInvalidArgument) abort();
    return 0;
  }
  auto& parsed = KJ_ASSERT_NONNULL(record);
  for (int64_t now : {int64_t(0), int64_t(1'800'000'000)}) {
    capnp::MallocMessageBuilder message;
    auto found = message.initRoot<rpc::JoinTokens::Found>();
    supervisor::fillFound(found, parsed, joinTokenDigest("join-abcdef.0123456789abcdef"), now);
    // No input has a record with this digest by chance: the seeds have another digest.
    if (found.getState() != rpc::JoinTokens::Found::State::UNKNOWN) abort();
    supervisor::fillToken(message.initRoot<rpc::Etcd::JoinToken>(), "abcdef", parsed.get(), now);
    supervisor::isForgotten(parsed.get(), now);
  }
  // A record whose parts are shared is larger when it is written.
  auto bytes = parsed.bytes();
  if (bytes.size() > supervisor::kMostTokenRecord) return 0;
  if (supervisor::TokenRecord::parse(bytes).bytes() != bytes) abort();
  return 0;
}
