#include "machined/disk/encryption/sealed-keys.h"

#include <kj/debug.h>
#include <kj/encoding.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/memory/secret-array.h"

namespace talos::machined {
namespace {

constexpr size_t kSealedBytes = 32;

kj::Array<kj::byte> passphraseOf(kj::ArrayPtr<const kj::byte> secret) {
  auto text = kj::encodeBase64(secret);
  KJ_DEFER(zeroize(text));
  return secretArray(text.asBytes());
}

// In a hand-over, the opener's keys have numbers beyond all slots (encryption-settings.h).
kj::Maybe<const Luks::Token&> tokenAt(const Luks::Found& found, const VolumeKey& key) {
  for (auto& token : found.tokens) {
    if (token.slot == key.slot % kKeySlots && token.type == tokenTypeOf(key.kind)) return token;
  }
  return nullptr;
}

Sealing& sealingOf(VolumeKey& key) {
  return KJ_REQUIRE_NONNULL(key.sealing);
}

// Returns the key with its passphrase, sealed as it is in the header.
kj::Promise<VolumeKey> unsealed(Luks& luks, const Luks::Token& token, const VolumeKey& key) {
  auto copy = key.clone();
  auto opened = co_await luks.unseal(key, token.userData);
  copy.passphrase = passphraseOf(opened.secret);
  copy.sealing = kj::mv(opened.sealing);
  sealingOf(copy).userData = kj::str(token.userData);
  co_return kj::mv(copy);
}

kj::Promise<VolumeKey> sealedNow(Luks& luks, const VolumeKey& key) {
  auto copy = key.clone();
  auto secret = secretArray(kSealedBytes);
  KJ_SYSCALL(getentropy(secret.begin(), secret.size()));
  sealingOf(copy).userData = co_await luks.seal(key, secret);
  copy.passphrase = passphraseOf(secret);
  co_return kj::mv(copy);
}

bool isIn(kj::ArrayPtr<const VolumeKey> keys, const VolumeKey& key) {
  auto& wanted = KJ_REQUIRE_NONNULL(key.sealing);
  for (auto& other : keys) {
    if (other.slot % kKeySlots != key.slot || other.kind != key.kind) continue;
    KJ_IF_MAYBE (sealing, other.sealing) {
      if (sealing->isTo(wanted)) return true;
    }
  }
  return false;
}

kj::String problemOf(const VolumeKey& key, const kj::Exception& e) {
  return kj::str(nameOf(key.kind), " of slot ", key.slot % kKeySlots, ": ", messageOf(e));
}

// The key as it is in its slot, or sealed now.
kj::Promise<VolumeKey> inItsSlot(Luks& luks, const Luks::Found& found, const VolumeKey& key,
                                 bool kept) {
  KJ_IF_MAYBE (token, tokenAt(found, key)) {
    kj::Maybe<VolumeKey> there;
    kj::Maybe<kj::Exception> locked;
    co_await unsealed(luks, *token, key)
        .then([&](VolumeKey&& k) { there = kj::mv(k); },
              [&](kj::Exception&& e) { locked = kj::mv(e); });
    KJ_IF_MAYBE (k, there) {
      if (sealingOf(*k).isTo(KJ_ASSERT_NONNULL(key.sealing))) co_return kj::mv(*k);
    }
    KJ_IF_MAYBE (e, locked) {
      if (kept) kj::throwFatalException(kj::mv(*e));
    }
  }
  co_return co_await sealedNow(luks, key);
}

}  // namespace

kj::Promise<UnsealedKeys> unsealKeys(Luks& luks, const Luks::Found& found,
                                     const VolumeSettings& settings) {
  UnsealedKeys result;
  kj::Vector<VolumeKey> keys;
  for (auto& key : settings.keys) {
    if (!key.isSealed()) {
      keys.add(key.clone());
      continue;
    }
    KJ_IF_MAYBE (token, tokenAt(found, key)) {
      co_await unsealed(luks, *token, key)
          .then([&](VolumeKey&& k) { keys.add(kj::mv(k)); },
                [&](kj::Exception&& e) { result.problems.add(problemOf(key, e)); });
    }
  }
  result.settings = withKeys(settings, kj::mv(keys));
  co_return kj::mv(result);
}

kj::Promise<UnsealedKeys> sealKeys(Luks& luks, const Luks::Found& found,
                                   kj::ArrayPtr<const VolumeKey> before,
                                   const VolumeSettings& wanted) {
  UnsealedKeys result;
  kj::Vector<VolumeKey> keys;
  kj::Vector<unsigned> locked;
  for (auto& key : wanted.keys) {
    if (!key.isSealed()) {
      keys.add(key.clone());
      continue;
    }
    bool kept = isIn(before, key);
    kj::Maybe<kj::Exception> failure;
    co_await inItsSlot(luks, found, key, kept)
        .then([&](VolumeKey&& k) { keys.add(kj::mv(k)); },
              [&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (e, failure) {
      auto problem = problemOf(key, *e);
      if (!kept) fail(kindOf(*e), problem);
      result.problems.add(kj::mv(problem));
      locked.add(key.slot);
    }
  }
  result.settings = withKeys(wanted, kj::mv(keys));
  result.settings.recovery.addAll(locked);
  co_return kj::mv(result);
}

}  // namespace talos::machined
