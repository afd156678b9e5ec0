#include "machined/disk/devices/hotplug-drivers.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/base/log.h"

namespace talos::machined {
namespace {

// A controller reports its devices one by one; the index of the modules is read once for all of
// them.
constexpr auto kGathering = 50 * kj::MILLISECONDS;
constexpr size_t kMostNew = 256;  // beyond this, all devices are looked at
constexpr size_t kMostBytes = 1024;

}  // namespace

kj::Maybe<kj::StringPtr> modaliasOfNewDevice(kj::ArrayPtr<const char> uevent) {
  kj::Maybe<kj::StringPtr> modalias;
  bool added = false;
  while (uevent.size() > 0) {
    auto end = std::find(uevent.begin(), uevent.end(), '\0');
    if (end == uevent.end()) break;  // cut off
    kj::StringPtr field(uevent.begin(), end - uevent.begin());
    if (field == "ACTION=add") added = true;
    constexpr auto kKey = "MODALIAS="_kj;
    if (field.startsWith(kKey)) modalias = field.slice(kKey.size());
    uevent = uevent.slice(field.size() + 1, uevent.size());
  }
  KJ_IF_MAYBE (text, modalias) {
    // Skips modaliases of processors, like the boot: the kernel requests the cipher that it uses
    // itself.
    bool counts = text->size() > 0 && text->size() <= kMostBytes && !text->startsWith("cpu:");
    if (added && counts) return *text;
  }
  return nullptr;
}

HotplugDrivers::HotplugDrivers(kj::UnixEventPort& port, kj::Timer& timer, bool all, Load load)
    : timer(timer), load(kj::mv(load)), events(port), running(run(all).eagerlyEvaluate(nullptr)) {}

void HotplugDrivers::collect() {
  bool complete = events.drain([this](kj::ArrayPtr<const char> event) {
    KJ_IF_MAYBE (modalias, modaliasOfNewDevice(event)) {
      auto& list = found.modaliases;
      if (std::find(list.begin(), list.end(), *modalias) != list.end()) return;
      if (list.size() < kMostNew) {
        list.add(kj::str(*modalias));
      } else {
        found.all = true;
      }
    }
  });
  if (!complete) found.all = true;
}

kj::Promise<void> HotplugDrivers::run(bool all) {
  found.all = all;
  for (;;) {
    // Before the look: the observer is edge-triggered.
    auto readable = events.whenReadable();
    collect();
    if (found.modaliases.empty() && !found.all) {
      co_await readable;
      continue;
    }
    co_await timer.afterDelay(kGathering);
    collect();
    auto devices = kj::mv(found);
    found = {};
    kj::Maybe<kj::Exception> failure;
    co_await load(kj::mv(devices)).catch_([&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (e, failure) {
      log::warn("cannot load the drivers of new devices", {{"error", messageOf(*e)}});
    }
  }
}

}  // namespace talos::machined
