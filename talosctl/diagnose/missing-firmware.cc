#include "talosctl/diagnose/missing-firmware.h"

#include <string.h>

#include <algorithm>

#include "common/text/texts.h"

namespace talos::talosctl {
namespace {

struct FirmwareRow {
  kj::StringPtr beginning, package;
};
constexpr FirmwareRow kFirmwarePackages[] = {
#define FIRMWARE(beginning, package) {beginning##_kj, package##_kj},
#include "talosctl/diagnose/firmware-packages.inc"
#undef FIRMWARE
};

// A message of the loader about an absent file: ENOENT.
struct LoaderMessage {
  kj::StringPtr before, after;
  bool loaded = false;
};
constexpr LoaderMessage kLoaderMessages[] = {
    {": Direct firmware load for "_kj, " failed with error -2"_kj},
    {": firmware: failed to load "_kj, " (-2)"_kj},
    {": firmware: direct-loading firmware "_kj, ""_kj, true},
};
// Rules for wireless cards; no card waits for this file.
constexpr kj::StringPtr kOfNoDevice = "regulatory.db"_kj;

struct FirmwareEvent {
  kj::String driver, device, file;
  bool loaded;
};

// Returns the message without a prefix such as "kern: warning: [2026-11-22T15:01:10Z]: ".
kj::StringPtr withoutPrefix(kj::StringPtr line) {
  constexpr kj::StringPtr kEnd = "]: "_kj;
  auto end = strstr(line.cStr(), kEnd.cStr());
  return end == nullptr ? line : line.slice(end - line.cStr() + kEnd.size());
}

kj::Maybe<FirmwareEvent> readFirmwareEvent(kj::StringPtr line) {
  auto text = withoutPrefix(line);
  for (auto& message : kLoaderMessages) {
    auto found = strstr(text.cStr(), message.before.cStr());
    if (found == nullptr) continue;
    auto place = kj::heapString(text.cStr(), found - text.cStr());
    auto rest = text.slice(place.size() + message.before.size());
    if (!rest.endsWith(message.after) || rest.size() == message.after.size()) continue;
    auto file = kj::heapString(rest.slice(0, rest.size() - message.after.size()));
    KJ_IF_MAYBE (blank, place.findFirst(' ')) {
      // Once a network card has a name, the name follows the device.
      auto device = place.slice(*blank + 1);
      auto end = device.findFirst(' ').orDefault(device.size());
      return FirmwareEvent{kj::heapString(place.slice(0, *blank)),
                           kj::heapString(device.slice(0, end)), kj::mv(file), message.loaded};
    }
  }
  return nullptr;
}

}  // namespace

bool isAboutFirmware(kj::StringPtr line) {
  return readFirmwareEvent(line) != nullptr;
}

kj::StringPtr firmwarePackage(kj::StringPtr file) {
  const FirmwareRow* best = nullptr;
  for (auto& row : kFirmwarePackages) {
    if (!file.startsWith(row.beginning)) continue;
    if (best == nullptr || row.beginning.size() > best->beginning.size()) best = &row;
  }
  return best == nullptr ? ""_kj : best->package;
}

kj::Vector<MissingFirmware> missingFirmware(capnp::List<capnp::Text>::Reader lines) {
  kj::Vector<kj::Maybe<FirmwareEvent>> events;
  for (auto line : lines) events.add(readFirmwareEvent(line));
  auto isLoadedLater = [&](const FirmwareEvent& missing, size_t at) {
    for (auto i = at + 1; i < events.size(); ++i) {
      KJ_IF_MAYBE (later, events[i]) {
        if (later->loaded && later->device == missing.device && later->file == missing.file) {
          return true;
        }
      }
    }
    return false;
  };
  kj::Vector<MissingFirmware> result;
  for (auto i : kj::indices(events)) {
    KJ_IF_MAYBE (event, events[i]) {
      if (event->loaded || event->file == kOfNoDevice || isLoadedLater(*event, i)) continue;
      auto package = firmwarePackage(event->file);
      auto place = std::find_if(result.begin(), result.end(), [&](const MissingFirmware& other) {
        return other.device == event->device && other.driver == event->driver &&
               firmwarePackage(other.files[0]) == package;
      });
      if (place == result.end()) {
        result.add(MissingFirmware{kj::str(event->driver), kj::str(event->device), {}, {}});
        place = result.end() - 1;
      }
      if (contains(place->files, event->file)) continue;
      place->files.add(kj::str(event->file));
      place->lines.add(lines[i]);
    }
  }
  return result;
}

}  // namespace talos::talosctl
