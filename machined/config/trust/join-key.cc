#include "machined/config/trust/join-key.h"

#include <unistd.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/wire/secret-file.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr size_t kMostKeyFile = 16u << 10;

kj::Own<SecretMessage> recordOf(kj::StringPtr key) {
  auto message = kj::heap<SecretMessage>();
  message->initRoot<rpc::KeyPair>().setKey(key.asBytes());
  return message;
}

// Returns the key in the file, or writes `fresh` there and returns it.
pki::Pem readOrWrite(kj::StringPtr file, SecretMessage& fresh) {
  kj::Maybe<pki::Pem> stored;
  auto failure = kj::runCatchingExceptions([&] {
    auto found = readSecretFile<rpc::KeyPair>(file, kMostKeyFile);
    KJ_IF_MAYBE (message, found) {
      pki::Pem key(
          kj::heapString((*message)->getRoot<rpc::KeyPair>().getKey().asReader().asChars()));
      pki::makeRequest(key, {});  // throws if it is not a key
      stored = kj::mv(key);
    }
  });
  KJ_IF_MAYBE (e, failure) {
    log::warn("cannot read the key of the join; making another one",
              {{"file", file}, {"error", messageOf(*e)}});
  }
  KJ_IF_MAYBE (key, stored) return kj::mv(*key);
  writeSecretFile(file, fresh);
  return pki::Pem(kj::heapString(fresh.getRoot<rpc::KeyPair>().getKey().asReader().asChars()));
}

}  // namespace

kj::Promise<kj::StringPtr> JoinKey::get(kj::StringPtr known) {
  removed = false;
  if (kj::StringPtr(key).size() == 0 && known.size() > 0) key = pki::Pem(kj::str(known));
  if (kj::StringPtr(key).size() == 0) {
    if (deps.isStateToCome()) co_return ""_kj;
    key = pki::makeKey(pki::KeyType::kEd25519);
  }
  if (!onDisk && deps.isMounted()) co_await settle();
  co_return key;
}

kj::Promise<void> JoinKey::settle() {
  kj::Maybe<kj::String> error;
  co_await deps.uv
      .blocking([file = kj::str(deps.file), fresh = recordOf(key)]() mutable {
        return readOrWrite(file, *fresh);
      })
      .then(
          [&](pki::Pem&& settled) {
            key = kj::mv(settled);
            onDisk = true;
          },
          [&](kj::Exception&& e) { error = messageOf(e); });
  KJ_IF_MAYBE (e, error) {
    log::warn("cannot store the key of the join; a power cut now costs the join token",
              {{"file", deps.file}, {"error", *e}});
  }
}

kj::Promise<void> JoinKey::remove() {
  key = pki::Pem();
  onDisk = false;
  if (removed || !deps.isMounted()) co_return;
  co_await deps.uv.blocking([file = kj::str(deps.file)] { (void)unlink(file.cStr()); });
  removed = true;
}

}  // namespace talos::machined
