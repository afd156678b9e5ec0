// The file by which a program knows a Kubernetes cluster and itself (kubeconfig, "Organizing
// Cluster Access Using kubeconfig Files"): written with everything in it, and a reference to a file
// only for a certificate that its owner renews there.
//
// Pure, and without a parser: the brain writes these too. Equal input gives equal bytes. The text
// holds a key or a token, and is zeroed when its owner drops it.
#pragma once

#include <kj/one-of.h>

#include "common/tls/pki.h"

namespace talos::kube {

struct ClientPair {
  kj::StringPtr certificate, key;  // PEM
};
// Both in one file of PEM.
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
  kj::StringPtr tlsName = "";  // that the server's certificate has, when it is not its host
  kj::StringPtr authority;     // PEM: who signs the server's certificate
  kj::StringPtr user;          // its name
  kj::OneOf<ClientPair, ClientPairFile, BearerToken> credentials;
  kj::StringPtr context;         // its name
  kj::StringPtr nameSpace = "";  // that the context means when none is said; empty: it does not say
  bool current = true;           // the context is the current one
};

pki::Pem writeKubeconfig(const KubeconfigContent& content);

}  // namespace talos::kube
