// One question to a host: a TCP connection, or a GET of HTTP/1.1 whose status is 200 to 399. No
// redirect is followed, no proxy is used, and nothing of the answer but its status is read.
#pragma once

#include <kj/function.h>

#include <memory>

#include "common/net/host-dial.h"
#include "common/tls/tls.h"

namespace talos::probed {

struct ProbeSettings {
  kj::String target;  // host:port, or the URL
  bool http;
  kj::Duration interval, timeout;
  unsigned failureThreshold;

  bool operator==(const ProbeSettings& other) const {
    return target == other.target && http == other.http && interval == other.interval &&
           timeout == other.timeout && failureThreshold == other.failureThreshold;
  }
};

// The CAs of https. Parsing all public ones takes milliseconds, so they are kept for a while; a
// TrustedRootsConfig that was added meanwhile counts after that.
class KeptAuthorities {
 public:
  static constexpr auto kKept = 10 * kj::SECONDS;
  // `read` returns the present CAs as PEM.
  KeptAuthorities(kj::Timer& timer, kj::Function<kj::String()> read)
      : timer(timer), read(kj::mv(read)) {}
  KJ_DISALLOW_COPY_AND_MOVE(KeptAuthorities);

  // Throws InvalidArgument if there are no valid CAs.
  std::shared_ptr<TlsVerifier> verifier();

 private:
  kj::Timer& timer;
  kj::Function<kj::String()> read;
  std::shared_ptr<TlsVerifier> made;
  kj::TimePoint until = kj::origin<kj::TimePoint>();
};

// Asks once. Fails with the reason if the answer is bad or does not come within the timeout; text
// of the server is a field (foreign-text.h).
kj::Promise<void> ask(DialDependencies dialing, KeptAuthorities& authorities,
                      const ProbeSettings& settings);

}  // namespace talos::probed
