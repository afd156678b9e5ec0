// Where an extra manifest comes from: an http or https URL, and what is known of its content. Pure.
#pragma once

#include <kj/compat/url.h>

#include "common/kube/json.h"

namespace talos::kubed {

constexpr size_t kMostManifest = 4u << 20;

struct ManifestSource {
  kj::Url url;
  kj::String shown;              // without what may be secret
  kj::Maybe<kj::String> sha256;  // hex, lower case: of ?checksum=sha256:<digits>, which is not sent

  kj::String host() const;  // without a port and brackets
  uint16_t port() const;
  bool secure() const { return url.scheme == "https"; }
  kj::String target() const;  // path and query, as they go on the wire
};

// What may be shown of an address that somebody wrote: without passwords, query and fragment.
kj::String shownUrl(kj::StringPtr url);
// "05-https://example.org/a.yaml"; where something is not shown, the first digits of the SHA-256 of
// the whole URL follow, so that two are not one.
kj::String manifestId(kj::StringPtr priority, kj::StringPtr url);

// InvalidArgument saying what would be right.
ManifestSource readSource(kj::StringPtr url);
// Where its server sends us on. InvalidArgument when that is no http or https URL, or leads from
// https to http.
ManifestSource redirected(const ManifestSource& from, kj::StringPtr location);

// What was fetched as a list of objects, in YAML. InvalidArgument when the digest is another one,
// or it is no YAML.
kj::String readManifest(const ManifestSource& from, kj::ArrayPtr<const char> body);
// The same of a text in the config.
kj::String readInlineManifest(kj::StringPtr name, kj::StringPtr contents);

}  // namespace talos::kubed
