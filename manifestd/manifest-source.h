// The source of an extra manifest: an http or https URL, and its checksum. Pure.
#pragma once

#include <kj/compat/url.h>

#include "common/kube/json.h"

namespace talos::manifestd {

constexpr size_t kMostManifest = 4u << 20;

struct ManifestSource {
  kj::Url url;
  kj::String shown;              // the URL without its secret parts
  kj::Maybe<kj::String> sha256;  // hex, lower case: from ?checksum=sha256:<digits>, which is not
                                 // sent

  kj::String host() const;  // without a port and brackets
  uint16_t port() const;
  bool secure() const { return url.scheme == "https"; }
  kj::String target() const;  // path and query, as they are sent
};

// Returns the URL for messages: without passwords, query and fragment.
kj::String shownUrl(kj::StringPtr url);
// Returns "05-https://example.org/a.yaml"; when a part of the URL is hidden, the first digits of
// the SHA-256 of the whole URL follow, so that two URLs have two ids.
kj::String manifestId(kj::StringPtr priority, kj::StringPtr url);

// Throws InvalidArgument with the valid form.
ManifestSource readSource(kj::StringPtr url);
// Follows a redirect. Throws InvalidArgument if the location is not an http or https URL, or leads
// from https to http.
ManifestSource redirected(const ManifestSource& from, kj::StringPtr location);

// Returns the fetched text as a list of objects, in YAML. Throws InvalidArgument if the digest
// differs or the text is not valid YAML.
kj::String readManifest(const ManifestSource& from, kj::ArrayPtr<const char> body);
// Does the same with a text in the config.
kj::String readInlineManifest(kj::StringPtr name, kj::StringPtr contents);

}  // namespace talos::manifestd
