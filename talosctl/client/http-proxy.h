// The HTTP proxy through which the client reaches the nodes' API, as the environment names it.
//
// The rules are those of the original's gRPC client. HTTPS_PROXY (or https_proxy) is the URL of the
// proxy, NO_PROXY (or no_proxy) a list of hosts that are reached directly: a name with all names
// below it, ".name" or "*.name" for those below it alone, an address, a network with a prefix
// length, each perhaps with a port, or * for every host. Loopback addresses and localhost are
// always reached directly.
//
// The client requests a tunnel (RFC 9110, section 9.3.6) to the host by the name that the user
// gave: the proxy resolves it. TLS goes through the tunnel to the node, so the proxy sees neither
// calls nor certificates, and cannot pose as a node. The connection to the proxy itself is not
// encrypted.
//
// The proxy's answer is foreign: at most kMostProxyHead bytes of it are read, no byte of the tunnel
// with it, and the status alone decides. Deadlines are the caller's.
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/vector.h>

#include "common/net/host-dial.h"

namespace talos::talosctl {

constexpr size_t kMostProxyHead = 16384;

struct HttpProxy {
  kj::StringPtr variable;  // its name in the environment
  kj::String host;         // a name or an address, without brackets
  uint16_t port;
  kj::String credentials;  // "user:password", secret; empty: none

  // Returns "proxy.example.org:3128".
  kj::String address() const;
};

// Parses the value of the variable. Throws InvalidArgument, without the value, which may have a
// password.
HttpProxy parseProxy(kj::StringPtr variable, kj::StringPtr value);
// Returns true if a host (without brackets) is this machine, or if the list of NO_PROXY has it.
bool isReachedDirectly(kj::StringPtr list, kj::StringPtr host, uint16_t port);

// Returns the proxy for a connection to the host; nullptr: it is reached directly. Throws
// InvalidArgument like parseProxy().
kj::Maybe<HttpProxy> proxyFor(kj::Function<kj::Maybe<kj::String>(kj::StringPtr name)>& environment,
                              kj::StringPtr host, uint16_t port);

struct ProxyAnswer {
  unsigned status;    // 100 to 999
  kj::String reason;  // printable, perhaps empty
};

// Reads the head of a proxy's answer, byte by byte.
class ProxyAnswerReader {
 public:
  // Returns the answer with the last byte of its head. Throws Unavailable as soon as it is no
  // answer of HTTP/1, or too long.
  kj::Maybe<ProxyAnswer> add(char c);

 private:
  kj::Vector<char> statusLine;
  kj::Maybe<ProxyAnswer> answer;  // of the status line
  size_t total = 0;
  bool lineIsEmpty = true;
};

// Requests a tunnel to the host on a connection to the proxy. Returns the tunnel; throws
// Unavailable with the proxy's reason. The proxy must outlive the promise.
kj::Promise<kj::Own<kj::AsyncIoStream>> openTunnel(kj::Own<kj::AsyncIoStream> connection,
                                                   const HttpProxy& proxy, kj::StringPtr host,
                                                   uint16_t port);

// Does the same with a new connection. Errors name the proxy.
kj::Promise<kj::Own<kj::AsyncIoStream>> dialByProxy(DialDependencies deps, const HttpProxy& proxy,
                                                    kj::StringPtr host, uint16_t port);

}  // namespace talos::talosctl
