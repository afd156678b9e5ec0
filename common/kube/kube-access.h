// Address of a cluster's API and identity of a client: one context of a kubeconfig, with everything
// it refers to. Reading takes foreign bytes; secrets are zeroed when their owner drops them.
#pragma once

#include "common/tls/pki.h"

namespace talos::kube {

struct KubeAccess {
  kj::String cluster;  // name of the cluster
  kj::String host;     // name or address, without brackets
  uint16_t port = 443;
  kj::String authority;    // PEM
  kj::String tlsName;      // name that the server's certificate must have
  kj::String certificate;  // PEM; if empty, the token is used
  pki::Pem key;
  pki::Pem token;

  // Returns "10.5.0.1:6443", for messages.
  kj::String name() const;
};

// https://host[:port][/path]
struct ServerUrl {
  kj::String host;           // name or address, without brackets
  kj::Maybe<uint16_t> port;  // nullptr if the URL has no port
  kj::String path;           // empty, or starting with its slash

  kj::String text() const;
};
// Throws InvalidArgument for anything else; a path must have no query and no characters that need
// quotes.
ServerUrl readServerUrl(kj::StringPtr url);

// Address from https://host[:port]; InvalidArgument for anything else, also for a URL with a path.
struct ServerAddress {
  kj::String host;
  uint16_t port;
};
ServerAddress readServer(kj::StringPtr url);

// Returns the context of this name, or the current one. Throws InvalidArgument naming `file` if the
// text is not a kubeconfig, lacks something, or needs an unsupported feature: further files,
// programs that log in, servers that are not verified.
KubeAccess readAccess(kj::StringPtr text, kj::StringPtr file, kj::StringPtr context = "");

}  // namespace talos::kube
