#include "common/config/rules/encryption-keys.h"

#include <kj/array.h>

#include "common/base/sha256.h"

namespace talos::config {
namespace {

constexpr kj::StringPtr kSecretbox = "secretbox"_kj, kAescbc = "aescbc"_kj;
constexpr kj::StringPtr kSecretboxName = "key2"_kj, kAescbcName = "key1"_kj;
constexpr size_t kShownDigits = 12;

}  // namespace

kj::String ownKeyName(kj::StringPtr secret) {
  Sha256 hash;
  // Nothing else is hashed in this way.
  hash.add("secretbox key of Kubernetes\n"_kj.asBytes());
  hash.add(secret.asBytes());
  return kj::str("key-", hash.hex().slice(0, kShownDigits));
}

kj::Vector<SecretsKey> secretsKeys(kj::StringPtr secretbox, kj::StringPtr aescbc,
                                   kj::ArrayPtr<const kj::StringPtr> accepted) {
  kj::Vector<SecretsKey> keys;
  auto add = [&](kj::String name, kj::StringPtr secret) {
    for (auto& key : keys) {
      if (key.name == name && key.secret == secret) return;
    }
    keys.add(SecretsKey{kSecretbox, kj::mv(name), secret});
  };
  auto addBoth = [&](kj::StringPtr secret) {
    add(ownKeyName(secret), secret);
    add(kj::str(kSecretboxName), secret);
  };
  if (secretbox.size() > 0) {
    bool own = false;
    for (auto one : accepted) own = own || one == secretbox;
    add(own ? ownKeyName(secretbox) : kj::str(kSecretboxName), secretbox);
  }
  if (aescbc.size() > 0) keys.add(SecretsKey{kAescbc, kj::str(kAescbcName), aescbc});
  if (secretbox.size() > 0) addBoth(secretbox);
  for (auto one : accepted) addBoth(one);
  return keys;
}

kj::String storedPrefix(const SecretsKey& key) {
  return kj::str("k8s:enc:", key.provider, ":v1:", key.name, ":");
}

}  // namespace talos::config
