// One GET on a connection that is there already: TLS if it is https, HTTP/1.1 (RFC 9110), and what
// the answer is good for. At most kMostConfigBytes of it.
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>

#include "machined/foreign/foreign.h"

namespace talos::parse {

// `tell` hears what it waits for, and how many bytes have come. Unavailable, Unauthenticated or
// InvalidArgument with the cause when the server gives neither a text nor another place.
kj::Promise<machined::HttpAnswer> httpGet(kj::Own<kj::AsyncIoStream> connection,
                                          const machined::HttpSource& place,
                                          kj::StringPtr authorities, kj::Date now,
                                          kj::Function<void(kj::StringPtr doing, size_t)> tell);

}  // namespace talos::parse
