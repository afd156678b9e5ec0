// Resolves names to addresses with c-ares: /etc/hosts, then the DNS servers of /etc/resolv.conf. No
// part of glibc's name service is used, so a static program resolves names on any host.
//
// A lookup consists of some sockets and a timer on the caller's loop, without a thread: the number
// of lookups that the caller has at once bounds the cost. Each lookup reads the two files again, so
// a change of them takes effect at once.
#pragma once

#include <kj/async-unix.h>
#include <kj/async.h>
#include <kj/string.h>
#include <kj/timer.h>

namespace talos {

struct ResolverOptions {
  kj::StringPtr servers = "";  // "127.0.0.1:5353,[::1]:53", replaces /etc/resolv.conf's
  unsigned timeoutMs = 2000;   // timeout of the first try; c-ares retries with longer ones
  unsigned tries = 3;
};

// Returns the addresses of `host` as text, best first, never empty. An address ("10.0.0.2",
// "fd00::1", "[fd00::1]") is its own answer. Throws Unavailable naming the host if it has no
// address. Dropping the promise cancels.
kj::Promise<kj::Array<kj::String>> resolve(kj::UnixEventPort& port, kj::Timer& timer,
                                           kj::StringPtr host, const ResolverOptions& options = {});

// Returns the text without brackets if it is an IPv4 or IPv6 address.
kj::Maybe<kj::String> asAddress(kj::StringPtr text);

}  // namespace talos
