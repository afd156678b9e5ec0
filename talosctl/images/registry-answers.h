// Reads the answers of registries: manifests, redirects, and the credentials that they require.
// Everything here is foreign. Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::talosctl {

// Where a request goes: https://host[:port]/target. The target is sent as it was written, because
// signed URLs must not change.
struct WebPlace {
  bool secure = true;
  kj::String host;  // a name or an address, without brackets
  uint16_t port = 443;
  kj::String target;  // begins with a slash

  // Returns the value of the header Host.
  kj::String authority() const;
};
// Reads http://… and https://…. Throws InvalidArgument, also for a URL with a user name.
WebPlace readPlace(kj::StringPtr url);
// Follows a redirect to a URL, or to a path of the same host. Throws InvalidArgument, also for one
// from https to http.
WebPlace redirectedPlace(const WebPlace& from, kj::StringPtr location);

// The value of WWW-Authenticate: the credentials that a registry requires.
struct Challenge {
  bool bearer;  // a token of the server `realm`; else user and password
  kj::String realm, service, scope;
};
// Returns nullptr if it is neither Basic nor Bearer.
kj::Maybe<Challenge> readChallenge(kj::StringPtr header);

// Returns "user:password" for a registry from Docker's config.json; nullptr without one. Throws
// InvalidArgument if the text is not such a file.
kj::Maybe<kj::String> credentialsIn(kj::ArrayPtr<const char> dockerConfig, kj::StringPtr registry);

struct Descriptor {
  kj::String digest;
  uint64_t size = 0;
  kj::String platform;  // linux/amd64, linux/arm64/v8; empty: unknown
};
// An image, or an index of the images of several platforms.
struct Manifest {
  bool isIndex = false;
  kj::Vector<Descriptor> parts;  // of an index its manifests; else the config and the layers
};
// Throws InvalidArgument if it is neither, or a part has no valid digest.
Manifest readManifest(kj::ArrayPtr<const char> text);

// Returns true if an image for `has` (linux/arm64/v8) runs on `wanted` (linux/arm64).
bool isPlatform(kj::StringPtr has, kj::StringPtr wanted);

}  // namespace talos::talosctl
