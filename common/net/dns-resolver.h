// Names to addresses by c-ares: /etc/hosts, then the DNS servers of /etc/resolv.conf. No part of
// glibc's name service is used, so a static program resolves names on any host.
//
// A lookup is some sockets and a time on the caller's loop, and no thread: what it costs is bounded
// by how many its caller has at once. Each reads the two files anew, so a change of them counts at
// once.
#pragma once

#include <kj/async-unix.h>
#include <kj/async.h>
#include <kj/string.h>
#include <kj/timer.h>

namespace talos {

struct ResolverOptions {
  kj::StringPtr servers = "";  // "127.0.0.1:5353,[::1]:53" instead of those of /etc/resolv.conf
  unsigned timeoutMs = 2000;   // of the first try; c-ares tries again, longer
  unsigned tries = 3;
};

// The addresses of `host` as text, best first, never empty. An address ("10.0.0.2", "fd00::1",
// "[fd00::1]") is its own answer. Unavailable naming the host when there is none. Dropping the
// promise cancels.
kj::Promise<kj::Array<kj::String>> resolve(kj::UnixEventPort& port, kj::Timer& timer,
                                           kj::StringPtr host, const ResolverOptions& options = {});

// The text without brackets if it is an IPv4 or IPv6 address.
kj::Maybe<kj::String> asAddress(kj::StringPtr text);

}  // namespace talos
