// Fetches an extra manifest: HTTP/1.1, with TLS 1.2 or newer to servers of public CAs. The answer
// is not trusted; it is bounded (kMostManifest, kFetchDeadline) and read in manifest-source.h.
#pragma once

#include "common/net/host-dial.h"
#include "common/tls/tls.h"
#include "manifestd/manifest-source.h"

namespace talos::manifestd {

constexpr auto kFetchDeadline = 60 * kj::SECONDS;
constexpr unsigned kMostManifestRedirects = 5;

using FetchHeaders = kj::ArrayPtr<const std::pair<kj::String, kj::String>>;

// Returns the objects as YAML. `headers` are sent only to the host that the URL names. `verifier`
// is called when a server uses TLS. Rejects with an error that contains neither the URL nor a value
// of `headers`, even if the server repeats it; text of the server is a field (foreign-text.h).
kj::Promise<kj::String> fetchManifest(DialDependencies dialing, ManifestSource source,
                                      FetchHeaders headers, kj::Function<TlsVerifier&()>& verifier);

}  // namespace talos::manifestd
