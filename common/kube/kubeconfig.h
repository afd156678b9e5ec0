// File that tells a program the address of a Kubernetes cluster and the program's identity
// (kubeconfig, "Organizing Cluster Access Using kubeconfig Files"). It contains everything, except
// for a certificate that its owner renews in a file: then it refers to this file.
//
// Pure, and without a parser, as the brain writes kubeconfigs too. Equal input gives equal bytes.
// The text holds a key or a token, and is zeroed when its owner drops it.
#pragma once

#include <kj/one-of.h>

#include "common/tls/pki.h"

namespace talos::kube {

struct ClientPair {
  kj::StringPtr certificate, key;  // PEM
};
// Certificate and key in one file of PEM.
struct ClientPairFile {
  kj::StringPtr path;
};
struct BearerToken {
  kj::StringPtr token;
};

// One cluster, one user, and a context for the two.
struct KubeconfigContent {
  kj::StringPtr cluster;       // its name
  kj::StringPtr server;        // https://host:port
  kj::StringPtr tlsName = "";  // name in the server's certificate, if it is not the server's host
  kj::StringPtr authority;     // PEM: the CA that signs the server's certificate
  kj::StringPtr user;          // its name
  kj::OneOf<ClientPair, ClientPairFile, BearerToken> credentials;
  kj::StringPtr context;         // its name
  kj::StringPtr nameSpace = "";  // default namespace of the context; empty to leave it out
  bool current = true;           // the context is the current one
};

pki::Pem writeKubeconfig(const KubeconfigContent& content);

}  // namespace talos::kube
