// The secrets of a cluster as a file (rpc/secrets.capnp), or from other sources. Pure.
//
// A bundle is the only copy of a cluster's CAs: callers write it with mode 0600 and never replace
// one by accident.
#pragma once

#include "common/base/problem.h"
#include "common/config/config-generate.h"

namespace talos::config {

kj::String writeSecrets(const Secrets& secrets);

// Throws InvalidArgument with every problem of the text, each with its place: keys that are missing
// or unknown, certificates without their key, bootstrap tokens of another form.
// `warnings`: gets the others.
Secrets readSecrets(kj::StringPtr text, kj::StringPtr file,
                    kj::Maybe<kj::Vector<kj::String>&> warnings = nullptr);

// Those of the cluster that a control-plane node belongs to, from its machine config. Throws
// InvalidArgument with every problem of the config, and for one without the secrets.
Secrets secretsFrom(kj::ArrayPtr<const char> config, kj::StringPtr file,
                    kj::Maybe<kj::Vector<kj::String>&> warnings = nullptr);

// As they are printed behind the word for a warning.
kj::Vector<kj::String> warningsOf(const Problems& problems);

// Takes the CAs of a kubeadm cluster instead of those of `secrets`: `read` gives a file of its PKI
// folder by its path in it ("ca.crt", "etcd/ca.key", …), and throws when there is none. Throws
// InvalidArgument, naming the file, for one that does not hold what it should.
void adoptKubernetesPki(Secrets& secrets, kj::Function<kj::String(kj::StringPtr path)> read);
// The token in `text`, in every form in which kubeadm takes or prints it: alone, in the line of
// `kubeadm join`, in a row of `kubeadm token list`, in its YAML. InvalidArgument if there is none,
// or more than one.
void adoptBootstrapToken(Secrets& secrets, kj::StringPtr text);

}  // namespace talos::config
