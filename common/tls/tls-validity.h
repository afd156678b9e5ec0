// Errors of certificates that are refused because of their validity: they name the validity and the
// local clock, because only the reader knows which of the two is wrong.
#pragma once

#include <kj/async-io.h>
#include <kj/string.h>
#include <kj/time.h>

namespace talos {

// Validity of a certificate.
struct Validity {
  kj::Date notBefore = kj::UNIX_EPOCH, notAfter = kj::UNIX_EPOCH;
};

// Returns "valid from 2026-11-20T12:00:00Z until 2026-11-21T12:05:00Z, and the clock here shows
// 2016-…".
kj::String validityText(const Validity& validity, kj::Date now);

// Wraps a client's connection over TLS 1.3: the client learns only with the first bytes that the
// server refused its certificate. If the cause may be the certificate's validity, the error of the
// read or write names it.
kj::Own<kj::AsyncIoStream> explainRefusal(kj::Own<kj::AsyncIoStream> stream, Validity own);

}  // namespace talos
