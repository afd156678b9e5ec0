// Keys with which Kubernetes encrypts secrets in etcd, in the order in which an API server tries
// them, and the names by which etcd identifies the key of each object. Pure.
//
// The first key writes. `secretboxEncryptionSecret` keeps its usual name key2 until it is one of
// `acceptedEncryptionSecrets` as well: then it writes under a name derived from its content. So
// objects of the replaced key and of its replacement can be distinguished without a key. Every key
// of secretbox reads under both names, so that nodes that name the same key differently (one was
// configured by an older secrets.yaml) read what the others write.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::config {

struct SecretsKey {
  kj::StringPtr provider;  // secretbox or aescbc
  kj::String name;
  kj::StringPtr secret;  // base64; its memory belongs to the caller
};

// Returns "key-" and 12 digits of a hash.
kj::String ownKeyName(kj::StringPtr secret);

kj::Vector<SecretsKey> secretsKeys(kj::StringPtr secretbox, kj::StringPtr aescbc,
                                   kj::ArrayPtr<const kj::StringPtr> accepted);

// Returns "k8s:enc:secretbox:v1:key2:", the beginning of every value that the key has written.
kj::String storedPrefix(const SecretsKey& key);

}  // namespace talos::config
