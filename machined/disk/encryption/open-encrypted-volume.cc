#include "machined/disk/encryption/open-encrypted-volume.h"

#include <kj/debug.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/node-messages.h"
#include "common/memory/zeroize.h"
#include "machined/disk/encryption/luks-key-change.h"
#include "machined/disk/encryption/sealed-keys.h"

namespace talos::machined {
namespace {

[[noreturn]] void refuseVolume(kj::String problem) {
  fail(ErrorKind::kFailedPrecondition, problem);
}

// In a hand-over, the opener's keys have numbers beyond all slots (encryption-settings.h).
kj::String named(kj::ArrayPtr<const VolumeKey> keys) {
  auto names = KJ_MAP(key, keys) {
    return kj::str(nameOf(key.kind), " of slot ", key.slot % kKeySlots);
  };
  return kj::strArray(names, ", ");
}

// `problems`: of keys that could not be tried. With a key of a server, another try may succeed.
[[noreturn]] void refuseLocked(kj::StringPtr device, const VolumeSettings& settings,
                               kj::ArrayPtr<const kj::String> problems) {
  bool asked = hasKmsKey(settings);
  auto cause = asked
                   ? "); a key server may be away, or may not know this machine"_kj
                   : "); the disk may be another machine's, or its keys were changed elsewhere"_kj;
  fail(asked ? ErrorKind::kUnavailable : ErrorKind::kFailedPrecondition,
       kj::str(messages::kNoKeyOpens, device, " (tried: ", named(settings.keys), cause,
               problems.size() > 0 ? "; " : "", kj::strArray(problems, "; ")));
}

void warnOf(kj::StringPtr label, kj::ArrayPtr<const kj::String> problems, SayLine& say) {
  for (auto& problem : problems) say(kj::str("warning: ", label, ": ", problem));
}

kj::Promise<UnsealedKeys> unsealIfSealed(Luks& luks, kj::StringPtr device,
                                         const VolumeSettings& settings) {
  Luks::Found found;
  if (hasSealedKey(settings)) found = co_await luks.inspect(device);
  co_return co_await unsealKeys(luks, found, settings);
}

const VolumeKey& keyAt(const KeyPlace& place, const VolumeSettings& before,
                       const VolumeSettings& after) {
  return (place.list == KeyPlace::List::kBefore ? before : after).keys[place.key];
}

kj::String sentence(const KeyStep& step, kj::StringPtr device) {
  switch (step.what) {
    case KeyStep::What::kAdd:
      return kj::str("adding the key of slot ", step.slot, " to ", device);
    case KeyStep::What::kVerify:
      return kj::str("verifying that the key of slot ", step.slot, " opens ", device);
    case KeyStep::What::kPersist:
      return kj::str("storing the keys of ", device);
    case KeyStep::What::kRemove:
      break;
  }
  return kj::str("removing key slot ", step.slot, " of ", device);
}

kj::Promise<void> carryOut(Luks& luks, kj::StringPtr device, kj::Vector<KeyStep> steps,
                           const VolumeSettings& before, const VolumeSettings& after,
                           KeyChangeExtent extent, PersistKeys persist, SayLine& say) {
  for (auto& step : steps) {
    Luks::At by{keyAt(step.by, before, after), step.by.slot};
    say(sentence(step, device));
    switch (step.what) {
      case KeyStep::What::kAdd:
        co_await luks.add(device, {after.keys[step.key], step.slot}, by);
        break;
      case KeyStep::What::kVerify: {
        auto copy = after.keys[step.key].at(step.slot);
        auto fits = co_await luks.test(device, kj::arrayPtr(&copy, 1));
        if (!fits[0]) {
          refuseVolume(kj::str(device, ": the new key of slot ", step.slot, " does not open it"));
        }
        break;
      }
      case KeyStep::What::kPersist:
        co_await persist();
        if (extent == KeyChangeExtent::kUntilPersisted) co_return;
        break;
      case KeyStep::What::kRemove:
        co_await luks.remove(device, step.slot, by);
        break;
    }
  }
}

VolumeSettings bootKeysOf(const VolumeSettings& settings) {
  VolumeSettings only;
  for (auto& key : settings.keys) {
    if (key.atBoot) only.keys.add(key.clone());
  }
  return only;
}

// Finds a key that opens the volume; one that boots have, if it fits, because it must stay. The
// index of the key refers to the settings.
kj::Promise<kj::Maybe<Luks::Opened>> findKey(Luks& luks, kj::StringPtr device,
                                             const VolumeSettings& settings) {
  auto first = bootKeysOf(settings);
  if (first.keys.size() == settings.keys.size()) {
    co_return co_await luks.open(device, "", settings);
  }
  auto result = co_await luks.open(device, "", first);
  KJ_IF_MAYBE (opened, result) {
    for (size_t i = 0; i < settings.keys.size(); ++i) {
      if (settings.keys[i].slot != first.keys[opened->key].slot) continue;
      opened->key = i;
      co_return kj::mv(result);
    }
  }
  co_return co_await luks.open(device, "", settings);
}

// Returns the keys without those of the locked slots, except for the key that opened the volume,
// whose index is changed.
VolumeSettings withoutLocked(const UnsealedKeys& sealed, const VolumeSettings& before,
                             Luks::Opened& opened) {
  kj::Vector<VolumeKey> keys;
  auto index = opened.key;
  for (size_t i = 0; i < before.keys.size(); ++i) {
    bool locked = false;
    for (auto slot : sealed.locked) locked = locked || before.keys[i].slot == slot;
    if (i == index) opened.key = keys.size();
    if (!locked || i == index) keys.add(before.keys[i].clone());
  }
  return withKeys(before, kj::mv(keys));
}

// Collects the facts about the header that the plan needs. `unsealed` is made of `listed`.
kj::Promise<void> change(Luks& luks, kj::StringPtr device, const VolumeSettings& listed,
                         const UnsealedKeys& unsealed, const VolumeSettings& desired,
                         Luks::Opened opened, KeyChangeExtent extent, PersistKeys persist,
                         SayLine& say) {
  auto found = co_await luks.inspect(device);
  KeysInForce now{device, listed.keys, unsealed, opened};
  auto sealed = co_await sealKeys(luks, found, now, desired);
  // The answer of a server for such a slot is not a key of the volume.
  auto before = withoutLocked(sealed, unsealed.settings, opened);
  warnOf(desired.label, sealed.problems, say);
  auto& after = sealed.settings;
  auto& wanted = after.keys;
  // A boot opens it with none of these keys until a sealed key is unsealed again.
  if (!sealed.problems.empty() && bootKeysOf(after).keys.empty()) co_return;
  auto& by = before.keys[opened.key];
  auto right = kj::heapArray<bool>(wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    right[i] = wanted[i].slot == opened.slot && wanted[i].opensLike(by);
    bool used = false;
    for (auto slot : found.slots) used = used || slot == wanted[i].slot;
    if (right[i] || !used) continue;
    right[i] = (co_await luks.test(device, wanted.asPtr().slice(i, i + 1)))[0];
  }
  KeyPlace place{KeyPlace::List::kBefore, opened.key, opened.slot};
  auto steps = planKeyChange({.before = before.keys,
                              .after = wanted,
                              .used = found.slots,
                              .opened = place,
                              .right = right,
                              .recovery = after.recovery});
  co_await carryOut(luks, device, kj::mv(steps), before, after, extent, kj::mv(persist), say);
}

}  // namespace

kj::String mappingOf(kj::StringPtr partition) {
  return kj::str(partition, "-encrypted");
}

kj::Promise<OpenVolume> openVolume(Luks& luks, kj::String device, kj::String mapping,
                                   const VolumeSettings& settings, SayLine& say,
                                   PersistKeys persist, KeyCare care) {
  auto found = co_await luks.inspect(device);
  if (found.content == Luks::Content::OTHER && found.problem.size() > 0) {
    refuseVolume(kj::str(device, " ", found.problem,
                         "; restore its header, or wipe the partition if nothing on it is needed"));
  }
  if (found.content == Luks::Content::OTHER) {
    refuseVolume(kj::str(
        device, " is not empty and has no LUKS2 header that can be read, but the config ",
        "wants it encrypted; wipe the partition or remove the encryption from the ", "config"));
  }
  if (found.content == Luks::Content::LUKS && found.problem.size() > 0) {
    refuseVolume(kj::str(device, ": ", found.problem));
  }
  UnsealedKeys keys;
  if (found.content == Luks::Content::EMPTY || found.slots.empty()) {
    keys = co_await sealKeys(luks, found, nullptr, settings);
    co_await persist();
    co_await luks.format(device, keys.settings);
    say(kj::str(settings.label, ": ", device, " was empty and is encrypted now"));
  } else {
    keys = co_await unsealKeys(luks, found, settings);
    warnOf(settings.label, keys.problems, say);
  }
  auto result = co_await luks.open(device, mapping, keys.settings);
  if (result == nullptr) refuseLocked(device, settings, keys.problems);
  auto opened = KJ_ASSERT_NONNULL(result);
  if (care == KeyCare::kLeave) {
    co_return OpenVolume{opened.slot, opened.fresh, kj::mv(keys.problems)};
  }
  // Without the steps, and without problems of which unsealing has warned.
  SayLine problems = [&](kj::StringPtr line) {
    if (line.startsWith("warning: ") && keys.problems.empty()) say(line);
  };
  co_await change(luks, device, settings, keys, settings, opened, KeyChangeExtent::kWhole,
                  kj::mv(persist), problems)
      .catch_([&](kj::Exception&& e) {
        say(kj::str("warning: ", settings.label, ": cannot change the keys of ", device, ": ",
                    messageOf(e)));
      });
  co_return OpenVolume{opened.slot, opened.fresh, kj::mv(keys.problems)};
}

kj::Promise<void> putKeysRight(Luks& luks, kj::String device, const VolumeSettings& settings,
                               PersistKeys persist) {
  return changeKeys(luks, kj::mv(device), settings, settings, KeyChangeExtent::kWhole,
                    kj::mv(persist));
}

kj::Promise<void> changeKeys(Luks& luks, kj::String device, const VolumeSettings& before,
                             const VolumeSettings& after, KeyChangeExtent extent,
                             PersistKeys persist, SayLine step) {
  step(kj::str("finding the key that opens ", device));
  auto old = co_await unsealIfSealed(luks, device, before);
  auto opened = co_await findKey(luks, device, old.settings);
  KJ_IF_MAYBE (o, opened) {
    co_await change(luks, device, before, old, after, *o, extent, kj::mv(persist), step);
    co_return;
  }
  // A change that was cut after the list was persisted may have left none of the old keys.
  auto next = co_await unsealIfSealed(luks, device, after);
  auto again = co_await findKey(luks, device, next.settings);
  KJ_IF_MAYBE (o, again) {
    co_await change(luks, device, after, next, after, *o, extent, kj::mv(persist), step);
    co_return;
  }
  refuseLocked(device, before, old.problems);
}

kj::Promise<void> putRecoveryKey(Luks& luks, kj::String device, const VolumeSettings& settings,
                                 VolumeKey key) {
  bool left = false;
  for (auto slot : settings.recovery) left = left || slot == key.slot;
  if (!left) {
    refuseVolume(kj::str("the config has no recovery key at slot ", key.slot, " of ",
                         settings.label, "; add {recovery: {}, slot: ", key.slot, "} to its keys"));
  }
  auto own = co_await unsealIfSealed(luks, device, settings);
  auto result = co_await luks.open(device, "", own.settings);
  if (result == nullptr) refuseLocked(device, settings, own.problems);
  auto& opened = KJ_ASSERT_NONNULL(result);
  if (opened.slot == key.slot) {
    refuseVolume(kj::str(device, ": slot ", key.slot, " has the only key that opens it"));
  }
  Luks::At by{own.settings.keys[opened.key], opened.slot};
  for (auto slot : (co_await luks.inspect(device)).slots) {
    if (slot == key.slot) co_await luks.remove(device, key.slot, by);
  }
  co_await luks.add(device, {key, key.slot}, by);
  if (!(co_await luks.test(device, kj::arrayPtr(&key, 1)))[0]) {
    refuseVolume(kj::str(device, ": the new recovery key does not open it; repeat the call"));
  }
}

kj::String newRecoveryPassphrase() {
  constexpr char kLetters[] = "abcdefghijkmnpqrstuvwxyz23456789";
  static_assert(sizeof(kLetters) == 33);
  constexpr size_t kGroups = 8, kGroup = 5;
  kj::byte chance[kGroups * kGroup];
  KJ_DEFER(zeroize(chance));
  KJ_SYSCALL(getentropy(chance, sizeof(chance)));
  auto text = kj::heapString(kGroups * (kGroup + 1) - 1);
  for (size_t i = 0; i < text.size(); ++i) {
    bool letter = i % (kGroup + 1) < kGroup;
    text.begin()[i] =
        letter ? kLetters[chance[i / (kGroup + 1) * kGroup + i % (kGroup + 1)] % 32] : '-';
  }
  return text;
}

}  // namespace talos::machined
