// The secrets of a cluster as a file (rpc/secrets.capnp), and where else they may come from. Pure.
//
// A bundle is the only copy of a cluster's authorities: whoever writes the text writes it 0600, and
// never over another one by accident.
#pragma once

#include "common/base/problem.h"
#include "common/config/generate.h"

namespace talos::config {

kj::String writeSecrets(const Secrets& secrets);

// Throws InvalidArgument with every problem of the text, each with its place: keys that are missing
// or unknown, certificates without their key, tokens of another form.
Secrets readSecrets(kj::StringPtr text, kj::StringPtr file);

// The authorities of a cluster that kubeadm made: the files of its PKI folder by their paths in it
// ("ca.crt", "etcd/ca.key", …).
constexpr kj::StringPtr kKubernetesPkiFiles[] = {"ca.crt"_kj,
                                                 "ca.key"_kj,
                                                 "etcd/ca.crt"_kj,
                                                 "etcd/ca.key"_kj,
                                                 "sa.key"_kj,
                                                 "front-proxy-ca.crt"_kj,
                                                 "front-proxy-ca.key"_kj};
// Replaces those of `secrets`. `read` gives the text of a file and throws when there is none.
// Throws InvalidArgument, naming the file, for one that does not hold what it should.
void adoptKubernetesPki(Secrets& secrets, kj::Function<kj::String(kj::StringPtr path)> read);
// Throws InvalidArgument for what is no token.
void adoptBootstrapToken(Secrets& secrets, kj::StringPtr token);

}  // namespace talos::config
