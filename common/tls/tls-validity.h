// When a certificate is refused because of its times, both are told: those of the certificate and
// what the clock of the machine that speaks says. Which of the two is wrong, only the reader knows.
#pragma once

#include <kj/async-io.h>
#include <kj/string.h>
#include <kj/time.h>

namespace talos {

// When a certificate is valid.
struct Validity {
  kj::Date notBefore = kj::UNIX_EPOCH, notAfter = kj::UNIX_EPOCH;
};

// "valid from 2026-11-20T12:00:00Z until 2026-11-21T12:05:00Z, and the clock here shows 2016-…"
kj::String validityText(const Validity& validity, kj::Date now);

// A client's connection over TLS 1.3, which learns only with its first bytes that the server
// refused the client's certificate. If the reason may be the certificate's times, the failure of
// the read or write tells them.
kj::Own<kj::AsyncIoStream> explainRefusal(kj::Own<kj::AsyncIoStream> stream, Validity own);

}  // namespace talos
