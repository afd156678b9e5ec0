#include "machined/disk/encryption/sealed-keys.h"

#include <kj/debug.h>
#include <kj/encoding.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/memory/secret-array.h"

namespace talos::machined {
namespace {

constexpr size_t kSealedBytes = 32;
static_assert(kSealedBytes == kKmsSecret);
constexpr auto kNotTheKey =
    "the key server answered with another key than the volume has; it may not know this machine"_kj;

kj::Array<kj::byte> passphraseOf(kj::ArrayPtr<const kj::byte> secret) {
  auto text = kj::encodeBase64(secret);
  KJ_DEFER(zeroize(text));
  return secretArray(text.asBytes());
}

// In a hand-over, the opener's keys have numbers beyond all slots (encryption-settings.h).
unsigned slotOf(const VolumeKey& key) {
  return key.slot % kKeySlots;
}

bool isOwnOf(const Luks::Token& token, const VolumeKey& key) {
  return token.slot == slotOf(key) && token.type == tokenTypeOf(key.kind);
}

// Returns the tokens that may have the key: that of its slot, then those of slots that the list
// does not name, where a key waits for its slot while keys change.
kj::Vector<const Luks::Token*> tokensOf(const Luks::Found& found, const VolumeKey& key,
                                        kj::ArrayPtr<const VolumeKey> list) {
  kj::Vector<const Luks::Token*> tokens;
  for (auto& token : found.tokens) {
    if (isOwnOf(token, key)) tokens.add(&token);
  }
  for (auto& token : found.tokens) {
    bool waits = token.type == tokenTypeOf(key.kind);
    for (auto& other : list) waits = waits && token.slot != slotOf(other);
    if (waits) tokens.add(&token);
  }
  return tokens;
}

Sealing& sealingOf(VolumeKey& key) {
  return KJ_REQUIRE_NONNULL(key.sealing);
}
const Sealing& sealingOf(const VolumeKey& key) {
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

bool isInForce(kj::Maybe<const KeysInForce&> before, const VolumeKey& key) {
  KJ_IF_MAYBE (b, before) {
    for (auto& other : b->list) {
      if (slotOf(other) == key.slot && isSealedLike(other, key)) return true;
    }
  }
  return false;
}

kj::String problemOf(const VolumeKey& key, const kj::Exception& e) {
  return kj::str(nameOf(key.kind), " of slot ", slotOf(key), ": ", messageOf(e));
}

// Tries to unseal the key from one token. `problem` gets the reason if that fails.
kj::Promise<kj::Maybe<VolumeKey>> tryUnseal(Luks& luks, const Luks::Token& token,
                                            const VolumeKey& key,
                                            kj::Maybe<kj::Exception>& problem) {
  kj::Maybe<VolumeKey> result;
  co_await unsealed(luks, token, key)
      .then([&](VolumeKey&& k) { result = kj::mv(k); },
            [&](kj::Exception&& e) { problem = kj::mv(e); });
  co_return kj::mv(result);
}

// Returns why the key could not be unsealed when the volume was opened.
kj::Maybe<kj::StringPtr> knownProblem(kj::Maybe<const KeysInForce&> before, const VolumeKey& key) {
  KJ_IF_MAYBE (b, before) {
    auto begin = kj::str(nameOf(key.kind), " of slot ", key.slot, ": ");
    for (auto& problem : b->unsealed.problems) {
      if (problem.startsWith(begin)) return problem.slice(begin.size());
    }
  }
  return nullptr;
}

// Returns the key as it was unsealed from this token to open the volume, so that it is not
// unsealed twice.
kj::Maybe<VolumeKey> unsealedBefore(kj::Maybe<const KeysInForce&> before, const Luks::Token& token,
                                    const VolumeKey& key) {
  KJ_IF_MAYBE (b, before) {
    for (auto& other : b->unsealed.settings.keys) {
      if (slotOf(other) != key.slot || !isSealedLike(other, key) || other.isSealed()) continue;
      if (sealingOf(other).userData == token.userData) return other.at(key.slot);
    }
  }
  return nullptr;
}

// Resolves with true if the key opens the slot of the token that it was unsealed from.
kj::Promise<bool> opensIts(Luks& luks, kj::Maybe<const KeysInForce&> before,
                           const Luks::Token& token, const VolumeKey& key) {
  auto& b = KJ_REQUIRE_NONNULL(before, "an empty volume has no tokens");
  if (b.opened.slot == token.slot && key.opensLike(b.unsealed.settings.keys[b.opened.key])) {
    co_return true;
  }
  auto copy = key.at(token.slot);
  co_return (co_await luks.test(b.device, kj::arrayPtr(&copy, 1)))[0];
}

// Returns the key as the header has it, or as it is sealed now. Throws if a key of the slot that is
// to stay is not unsealed.
kj::Promise<VolumeKey> sealedIn(Luks& luks, const Luks::Found& found,
                                kj::Maybe<const KeysInForce&> before, const VolumeKey& key,
                                kj::ArrayPtr<const VolumeKey> list) {
  bool kept = isInForce(before, key);
  kj::Maybe<kj::Exception> locked;
  for (auto token : tokensOf(found, key, list)) {
    kj::Maybe<kj::Exception> problem;
    auto there = unsealedBefore(before, *token, key);
    bool own = isOwnOf(*token, key);
    if (there == nullptr && kept && own) {
      KJ_IF_MAYBE (text, knownProblem(before, key)) fail(ErrorKind::kFailedPrecondition, *text);
    }
    if (there == nullptr) there = co_await tryUnseal(luks, *token, key, problem);
    KJ_IF_MAYBE (k, there) {
      bool server = key.kind == KeyKind::kKms;
      if (server && !co_await opensIts(luks, before, *token, *k)) {
        problem = error(ErrorKind::kFailedPrecondition, kNotTheKey);
      } else if (sealingOf(*k).isTo(KJ_ASSERT_NONNULL(key.sealing))) {
        co_return kj::mv(*k);
      }
    }
    if (own && problem != nullptr) locked = kj::mv(problem);
  }
  KJ_IF_MAYBE (e, locked) {
    if (kept) kj::throwFatalException(kj::mv(*e));
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
    kj::Maybe<kj::Exception> problem;
    kj::Maybe<VolumeKey> open;
    for (auto token : tokensOf(found, key, settings.keys)) {
      kj::Maybe<kj::Exception> next;
      open = co_await tryUnseal(luks, *token, key, next);
      if (open != nullptr) break;
      if (problem == nullptr) problem = kj::mv(next);
    }
    KJ_IF_MAYBE (k, open) {
      keys.add(kj::mv(*k));
    } else KJ_IF_MAYBE (e, problem) {
      result.problems.add(problemOf(key, *e));
    }
  }
  result.settings = withKeys(settings, kj::mv(keys));
  co_return kj::mv(result);
}

kj::Promise<UnsealedKeys> sealKeys(Luks& luks, const Luks::Found& found,
                                   kj::Maybe<const KeysInForce&> before,
                                   const VolumeSettings& wanted) {
  UnsealedKeys result;
  kj::Vector<VolumeKey> keys;
  for (auto& key : wanted.keys) {
    if (!key.isSealed()) {
      keys.add(key.clone());
      continue;
    }
    kj::Maybe<kj::Exception> failure;
    co_await sealedIn(luks, found, before, key, wanted.keys)
        .then([&](VolumeKey&& k) { keys.add(kj::mv(k)); },
              [&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (e, failure) {
      auto problem = problemOf(key, *e);
      if (!isInForce(before, key)) fail(talos::kindOf(*e), problem);
      result.problems.add(kj::mv(problem));
      result.locked.add(key.slot);
    }
  }
  result.settings = withKeys(wanted, kj::mv(keys));
  result.settings.recovery.addAll(result.locked);
  co_return kj::mv(result);
}

}  // namespace talos::machined
