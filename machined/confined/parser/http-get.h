// One request, mostly a GET, on a connection that is there already: TLS if it is https, HTTP/1.1
// (RFC 9110), and the body: at most kMostConfigBytes of it at once, or all of it in pieces. Nothing
// outlives the process that does it: the caller starts another one at the byte where this one
// stopped (machined/upgrade).
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>

#include "machined/confined/parser-client/foreign-bytes.h"

namespace talos::parse {

struct HttpQuestion {
  const machined::HttpSource& place;
  kj::StringPtr authorities;
  kj::Date now;
  // Hears what is waited for, and how many bytes have come.
  kj::Function<void(kj::StringPtr doing, size_t)> reportProgress;
};

// Unavailable, Unauthenticated or InvalidArgument with the cause when the server gives neither a
// text nor another place; NotFound for 404 and 410, PermissionDenied for 401 and 403. Of a metadata
// service (HttpSource::metadata) the body as it is; InvalidArgument for 400, Unimplemented for 405.
kj::Promise<machined::HttpAnswer> httpGet(kj::Own<kj::AsyncIoStream> connection,
                                          HttpQuestion question);

struct HttpBody {
  // From which byte on it comes, and how large the whole is; 0: nobody knows.
  kj::Function<void(uint64_t from, uint64_t size)> begins;
  kj::Function<void(kj::ArrayPtr<const kj::byte> bytes)> piece;  // at most kMostPieceBytes
};
// The body from this byte on, or from the first one when the server cannot do that. Resolves at its
// end, or to where the server sends us. NotFound and PermissionDenied as the server says.
kj::Promise<kj::Maybe<machined::HttpSource>> httpGetPieces(kj::Own<kj::AsyncIoStream> connection,
                                                           HttpQuestion question, uint64_t from,
                                                           HttpBody body);

}  // namespace talos::parse
