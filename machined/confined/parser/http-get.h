// Makes one request, mostly a GET, on an open connection: TLS if it is https, HTTP/1.1 (RFC 9110),
// and the body: at most kMostConfigBytes of it at once, or all of it in pieces. Keeps no state
// outside of its process: the caller starts another process at the byte where this one stopped
// (machined/upgrade).
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>

#include "machined/confined/parser-client/foreign-bytes.h"

namespace talos::parse {

struct HttpQuestion {
  const machined::HttpSource& place;
  kj::StringPtr authorities;
  kj::Date now;
  // Reports what the request waits for, and how many bytes have come.
  kj::Function<void(kj::StringPtr doing, size_t)> reportProgress;
};

// Fetches a text or the target of a redirect. Rejects with the cause if the server gives neither:
// Unavailable, Unauthenticated or InvalidArgument; NotFound for 404 and 410, PermissionDenied for
// 401 and 403. For a metadata service (HttpSource::metadata) returns the body as it is;
// InvalidArgument for 400, Unimplemented for 405.
kj::Promise<machined::HttpAnswer> httpGet(kj::Own<kj::AsyncIoStream> connection,
                                          HttpQuestion question);

struct HttpBody {
  // Announces the first byte of the body, and the size of the whole; 0 if it is not known.
  kj::Function<void(uint64_t from, uint64_t size)> begins;
  kj::Function<void(kj::ArrayPtr<const kj::byte> bytes)> piece;  // at most kMostPieceBytes
};
// Fetches the body from this byte on, or from its first byte if the server does not support this.
// Resolves at its end, or to the target of a redirect. NotFound and PermissionDenied as the server
// says.
kj::Promise<kj::Maybe<machined::HttpSource>> httpGetPieces(kj::Own<kj::AsyncIoStream> connection,
                                                           HttpQuestion question, uint64_t from,
                                                           HttpBody body);

}  // namespace talos::parse
