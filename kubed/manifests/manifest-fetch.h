// Fetches an extra manifest: HTTP/1.1, with TLS 1.2 or newer to servers of public CAs. What comes
// is foreign; it is bounded (kMostManifest, kFetchDeadline) and read in manifest-source.h.
#pragma once

#include "common/kube/host-dial.h"
#include "common/tls/tls.h"
#include "kubed/manifests/manifest-source.h"

namespace talos::kubed {

constexpr auto kFetchDeadline = 60 * kj::SECONDS;
constexpr unsigned kMostManifestRedirects = 5;

using FetchHeaders = kj::ArrayPtr<const std::pair<kj::String, kj::String>>;

// The objects as YAML. `headers` go to the host that the URL names, and to no other one.
// `verifier` says who is trusted, and is asked when a server wants TLS. Rejects with the reason,
// without the URL.
kj::Promise<kj::String> fetchManifest(kube::DialDependencies deps, ManifestSource source,
                                      FetchHeaders headers, kj::Function<TlsVerifier&()>& verifier);

}  // namespace talos::kubed
