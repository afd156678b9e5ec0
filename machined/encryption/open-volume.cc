#include "machined/encryption/open-volume.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "machined/encryption/key-change.h"

namespace talos::machined {
namespace {

[[noreturn]] void refuseVolume(kj::String why) {
  fail(ErrorKind::kFailedPrecondition, why);
}

kj::String named(kj::ArrayPtr<const VolumeKey> keys) {
  auto names = KJ_MAP(key, keys) {
    return kj::str(nameOf(key.kind), " of slot ", key.slot);
  };
  return kj::strArray(names, ", ");
}

[[noreturn]] void refuseLocked(kj::StringPtr device, kj::ArrayPtr<const VolumeKey> keys) {
  refuseVolume(kj::str("no key of the config opens ", device, " (tried: ", named(keys),
                       "); the disk may be another machine's, or its keys were changed elsewhere"));
}

const VolumeKey& keyAt(const KeyPlace& place, const VolumeSettings& before,
                       const VolumeSettings& after) {
  return (place.list == KeyPlace::List::kBefore ? before : after).keys[place.key];
}

kj::Promise<void> carryOut(Luks& luks, kj::StringPtr device, kj::Vector<KeyStep> steps,
                           const VolumeSettings& before, const VolumeSettings& after,
                           KeyChangeExtent extent, kj::Function<kj::Promise<void>()> persist) {
  for (auto& step : steps) {
    Luks::At by{keyAt(step.by, before, after), step.by.slot};
    switch (step.what) {
      case KeyStep::What::kAdd:
        co_await luks.add(device, {after.keys[step.key], step.slot}, by);
        break;
      case KeyStep::What::kVerify: {
        VolumeKey copy(step.slot, after.keys[step.key].kind,
                       kj::heapArray<kj::byte>(after.keys[step.key].passphrase));
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

// What the plan needs to know of the header.
kj::Promise<void> change(Luks& luks, kj::StringPtr device, const VolumeSettings& before,
                         const VolumeSettings& after, Luks::Opened opened, KeyChangeExtent extent,
                         kj::Function<kj::Promise<void>()> persist) {
  auto found = co_await luks.inspect(device);
  auto& wanted = after.keys;
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
  auto steps = planKeyChange({before.keys, wanted, found.slots, place, right});
  co_await carryOut(luks, device, kj::mv(steps), before, after, extent, kj::mv(persist));
}

}  // namespace

kj::String mappingOf(kj::StringPtr partition) {
  return kj::str(partition, "-encrypted");
}

kj::Promise<OpenVolume> openVolume(Luks& luks, kj::String device, kj::String mapping,
                                   const VolumeSettings& settings, SayLine& say) {
  auto found = co_await luks.inspect(device);
  if (found.content == Luks::Content::kOther) {
    refuseVolume(kj::str(
        device, " is not empty and has no LUKS2 header that can be read, but the config ",
        "wants it encrypted; wipe the partition or remove the encryption from the ", "config"));
  }
  if (found.content == Luks::Content::kLuks && found.problem.size() > 0) {
    refuseVolume(kj::str(device, ": ", found.problem));
  }
  if (found.content == Luks::Content::kEmpty || found.slots.empty()) {
    co_await luks.format(device, settings);
    say(kj::str(settings.label, ": ", device, " was empty and is encrypted now"));
  }
  auto result = co_await luks.open(device, mapping, settings);
  if (result == nullptr) refuseLocked(device, settings.keys);
  auto opened = KJ_ASSERT_NONNULL(result);
  co_await change(luks, device, settings, settings, opened, KeyChangeExtent::kWhole,
                  []() -> kj::Promise<void> { return kj::READY_NOW; })
      .catch_([&](kj::Exception&& e) {
        say(kj::str("warning: ", settings.label, ": cannot change the keys of ", device, ": ",
                    messageOf(e)));
      });
  co_return OpenVolume{opened.slot, opened.fresh};
}

kj::Promise<void> putKeysRight(Luks& luks, kj::String device, const VolumeSettings& settings) {
  return changeKeys(luks, kj::mv(device), settings, settings, KeyChangeExtent::kWhole,
                    []() -> kj::Promise<void> { return kj::READY_NOW; });
}

kj::Promise<void> changeKeys(Luks& luks, kj::String device, const VolumeSettings& before,
                             const VolumeSettings& after, KeyChangeExtent extent,
                             kj::Function<kj::Promise<void>()> persist) {
  auto opened = co_await luks.open(device, "", before);
  KJ_IF_MAYBE (o, opened) {
    co_await change(luks, device, before, after, *o, extent, kj::mv(persist));
    co_return;
  }
  // One that was cut after the list was persisted has none of the old keys left, perhaps.
  auto again = co_await luks.open(device, "", after);
  KJ_IF_MAYBE (o, again) {
    co_await change(luks, device, after, after, *o, extent, kj::mv(persist));
    co_return;
  }
  refuseLocked(device, before.keys);
}

}  // namespace talos::machined
