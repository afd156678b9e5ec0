// The secrets of a cluster, as a file (rpc/secrets.capnp) or from other sources. Pure.
//
// A bundle is the only copy of a cluster's CAs: callers write it with mode 0600 and must never
// overwrite a bundle by accident.
#pragma once

#include "common/base/problem.h"
#include "common/config/config-generate.h"

namespace talos::config {

kj::String writeSecrets(const Secrets& secrets);

// Parses a bundle. Throws InvalidArgument with every problem of the text and its place: missing or
// unknown keys, certificates without their key. `warnings`: receives the other problems, such as a
// bootstrap token that Kubernetes does not accept.
Secrets readSecrets(kj::StringPtr text, kj::StringPtr file,
                    kj::Maybe<kj::Vector<kj::String>&> warnings = nullptr);

// Returns the secrets of a cluster from the machine config of a control-plane node. Throws
// InvalidArgument with every problem of the config, and for a config without the secrets. What
// stops no node that has kept the config is a warning.
Secrets secretsFrom(kj::ArrayPtr<const char> config, kj::StringPtr file,
                    kj::Maybe<kj::Vector<kj::String>&> warnings = nullptr);

// Returns the warnings in the form in which they follow the word for a warning.
kj::Vector<kj::String> warningsOf(const Problems& problems);

// Replaces the CAs of `secrets` by those of a kubeadm cluster: `read` returns a file of its PKI
// folder by its path in this folder ("ca.crt", "etcd/ca.key", …), and throws if the file does not
// exist. Throws InvalidArgument, naming the file, for a file without the expected content.
void adoptKubernetesPki(Secrets& secrets, kj::Function<kj::String(kj::StringPtr path)> read);
// Sets the token found in `text`, in every form in which kubeadm accepts or prints it: alone, in
// the line of `kubeadm join`, in a row of `kubeadm token list`, in its YAML. A word alone is taken
// in any form, with a warning if Kubernetes does not accept it. InvalidArgument if there is no
// token, or more than one.
void adoptBootstrapToken(Secrets& secrets, kj::StringPtr text,
                         kj::Maybe<kj::Vector<kj::String>&> warnings = nullptr);

}  // namespace talos::config
