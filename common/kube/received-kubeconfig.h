// A kubeconfig that came from a node, for a client to keep or to use.
//
// The node may be in hostile hands, and a kubeconfig can name programs that kubectl runs, files
// that it reads and proxies that it goes through. So nothing is kept of the text that was received:
// it is read into the values below, each of which is checked, and a new text is written from them.
// A key that is none of these values is an error that names it. Pure; secrets are zeroed when their
// owner drops them.
#pragma once

#include "common/kube/kube-access.h"
#include "common/kube/kubeconfig.h"

namespace talos::kube {

struct ReceivedKubeconfig {
  kj::String cluster, user, context;  // names
  kj::String nameSpace;               // may be empty
  kj::String server;                  // https://host[:port][/path]
  kj::String tlsName;      // that the server's certificate must have; empty: the server's host
  kj::String authority;    // PEM
  kj::String certificate;  // PEM
  pki::Pem key;

  // Refers to this.
  KubeconfigContent content() const;
  ReceivedKubeconfig clone() const;
  pki::Pem text() const { return writeKubeconfig(content()); }
  KubeAccess access() const;
};

// One cluster, one user with a certificate and its key, one context for the two, which is the
// current one. InvalidArgument naming `file` and the key for everything else.
ReceivedKubeconfig readReceivedKubeconfig(kj::StringPtr text, kj::StringPtr file);

}  // namespace talos::kube
