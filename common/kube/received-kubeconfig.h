// A kubeconfig from a node, for a client to keep or to use.
//
// The node may be in hostile hands, and a kubeconfig can name programs that kubectl runs, files
// that it reads and proxies that it goes through. So the received text is not kept: its values are
// read into the fields below and checked, and a new text is written from them. Any other key is an
// error that names the key. Pure; secrets are zeroed when their owner drops them.
#pragma once

#include "common/kube/kube-access.h"
#include "common/kube/kubeconfig.h"

namespace talos::kube {

struct ReceivedKubeconfig {
  kj::String cluster, user, context;  // names
  kj::String nameSpace;               // may be empty
  kj::String server;                  // https://host[:port][/path]
  kj::String tlsName;      // name that the server's certificate must have; empty for the server's
                           // host
  kj::String authority;    // PEM
  kj::String certificate;  // PEM
  pki::Pem key;

  // Returns a content that refers to this object.
  KubeconfigContent content() const;
  ReceivedKubeconfig clone() const;
  pki::Pem text() const { return writeKubeconfig(content()); }
  KubeAccess access() const;
};

// Reads one cluster, one user with a certificate and its key, and one context for the two, which is
// the current one. Throws InvalidArgument naming `file` and the key for everything else.
ReceivedKubeconfig readReceivedKubeconfig(kj::StringPtr text, kj::StringPtr file);

}  // namespace talos::kube
