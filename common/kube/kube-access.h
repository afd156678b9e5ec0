// The address of a cluster's API and the identity of a client: one context of a kubeconfig, with
// everything in it. Reading takes foreign bytes; secrets are zeroed when their owner drops them.
#pragma once

#include "common/tls/pki.h"

namespace talos::kube {

struct KubeAccess {
  kj::String cluster;  // its name
  kj::String host;     // name or address, without brackets
  uint16_t port = 443;
  kj::String authority;    // PEM
  kj::String tlsName;      // that the server's certificate must have
  kj::String certificate;  // PEM; empty: the token
  pki::Pem key;
  pki::Pem token;

  // "10.5.0.1:6443", for messages.
  kj::String name() const;
};

// https://host[:port][/path]
struct ServerUrl {
  kj::String host;           // name or address, without brackets
  kj::Maybe<uint16_t> port;  // none: it does not say
  kj::String path;           // empty, or from its slash on

  kj::String text() const;
};
// InvalidArgument for anything else; a path must have no query and no characters that need quotes.
ServerUrl readServerUrl(kj::StringPtr url);

// Of https://host[:port]; InvalidArgument for anything else, a path included.
struct ServerAddress {
  kj::String host;
  uint16_t port;
};
ServerAddress readServer(kj::StringPtr url);

// The context of this name, or the current one. InvalidArgument naming `file` for what is no
// kubeconfig, lacks something, or needs what we do not do: files beside it, programs that log in,
// servers that are not verified.
KubeAccess readAccess(kj::StringPtr text, kj::StringPtr file, kj::StringPtr context = "");

}  // namespace talos::kube
