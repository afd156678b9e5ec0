// Reads images from registries, as the OCI distribution specification describes it: by https, with
// mirrors, redirects, and the credentials of Docker's config.json.
//
// Nothing of a registry is trusted: what is read for a digest has that digest, or it is an error.
// Credentials go to the registry that they are for and to its server of tokens, never to the place
// of a redirect. A request that gets no byte for a minute fails. Keeps tokens in memory, no other
// state.
#pragma once

#include <kj/map.h>

#include "common/image-cache/cache-layout.h"
#include "common/net/host-dial.h"
#include "common/tls/tls.h"
#include "talosctl/cli/command.h"
#include "talosctl/images/registry-answers.h"

namespace talos::talosctl {

struct RegistrySettings {
  bool insecure = false;  // registries are reached by plain HTTP
  // "docker.io=http://10.5.0.1:5000"; * stands for every registry. The client tries the mirrors of
  // a registry in this order, and the registry itself last.
  kj::ArrayPtr<const kj::String> mirrors;
  kj::Maybe<kj::String> dockerConfig;  // the content of config.json
  kj::String authorities;              // PEM: whose certificates servers of https may have
};

class RegistryClient {
 public:
  // Throws InvalidArgument if a mirror is not valid. `deps` must outlive the client.
  RegistryClient(Dependencies& deps, RegistrySettings settings);
  ~RegistryClient() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(RegistryClient);

  // Reads a manifest or an index, by tag or digest.
  kj::Promise<kj::Array<char>> manifest(const imagecache::ImageName& image,
                                        kj::StringPtr reference);
  // Reads a blob of this size in pieces. Rejects after the last one if the digest differs.
  kj::Promise<void> blob(const imagecache::ImageName& image, const Descriptor& blob,
                         kj::Function<void(kj::ArrayPtr<const kj::byte>)> sink);

 private:
  struct Answer;
  struct HeaderNames;
  struct Mirror {
    kj::String registry;
    WebPlace place;
    bool hasPath;
  };

  Dependencies& deps;
  RegistrySettings settings;
  kj::Own<HeaderNames> names;
  kj::Vector<Mirror> mirrors;
  kj::HashMap<kj::String, kj::String> authorizations;  // by host and repository
  kj::Maybe<kj::Own<TlsVerifier>> verifier;

  kj::Vector<WebPlace> placesOf(const imagecache::ImageName& image, kj::StringPtr kind,
                                kj::StringPtr reference);
  kj::Promise<Answer> ask(const imagecache::ImageName& image, kj::StringPtr kind,
                          kj::StringPtr reference);
  kj::Promise<Answer> askAt(const imagecache::ImageName& image, const WebPlace& first);
  kj::Promise<Answer> get(const WebPlace& place, kj::StringPtr authorization);
  kj::Promise<kj::Own<kj::AsyncIoStream>> dial(const WebPlace& place);
  kj::Promise<kj::String> authorizationFor(const imagecache::ImageName& image,
                                           const WebPlace& place, Challenge challenge);
};

}  // namespace talos::talosctl
