// URLs of a server of HTTP: scheme, host, port and what a request names. Pure.
#pragma once

#include <kj/string.h>
#include <stdint.h>

namespace talos {

struct HttpUrl {
  bool secure;
  kj::String authority;  // host and port as they are written: the header Host
  kj::String host;       // without brackets
  uint16_t port;
  kj::String target;  // path and query
};
// Returns nullptr for a text that is not a URL of http or https with a host, and for one with a
// user or a password. A fragment is left out, as it is never sent.
kj::Maybe<HttpUrl> parseHttpUrl(kj::StringPtr text);

// Divides a host, or an IPv6 address in brackets, from the port after it. Returns nullptr if either
// is not valid.
struct HostPort {
  kj::String host;  // without brackets
  uint16_t port;
};
kj::Maybe<HostPort> parseHostPort(kj::StringPtr text);

// The endpoint of a server of gRPC: host:port or grpc://host:port for a connection without TLS, any
// other scheme for TLS, where https may lack the port (443). A / at the end is allowed, another
// path, a query and a user are not. Returns nullptr for other texts.
struct GrpcEndpoint {
  bool secure;
  kj::String authority;  // host and port: kms.example.org:4050
  kj::String host;       // without brackets
  uint16_t port;
};
kj::Maybe<GrpcEndpoint> parseGrpcEndpoint(kj::StringPtr text);

}  // namespace talos
