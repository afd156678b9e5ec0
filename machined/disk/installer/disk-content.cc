#include "machined/disk/installer/disk-content.h"

namespace talos::install {
namespace {

constexpr size_t kMostNamed = 8;

}  // namespace

kj::Maybe<kj::String> worthKeeping(const Found& found) {
  if (found.installed == Installed::kUnfinished) return nullptr;
  kj::Vector<kj::String> things;
  if (found.installed == Installed::kYes) things.add(kj::str("an installed node"));
  for (auto& volume : found.volumes) {
    things.add(volume.label.size() > 0 ? kj::str(volume.type, " \"", volume.label, "\"")
                                       : kj::str(volume.type));
  }
  KJ_IF_MAYBE (kind, found.table) {
    auto& names = found.partitions;
    if (names.empty()) {
      things.add(kj::str("an empty partition table (", *kind, ")"));
    } else {
      auto shown = kj::strArray(names.slice(0, kj::min(names.size(), kMostNamed)), ", ");
      things.add(kj::str(names.size(), " partition", names.size() == 1 ? "" : "s", " (", *kind,
                         "): ", shown, names.size() > kMostNamed ? " and more" : ""));
    }
  }
  if (things.empty() && found.unknownData) things.add(kj::str("data of an unknown kind"));
  if (things.empty()) return nullptr;
  return kj::str("it holds ", kj::strArray(things, "; "));
}

}  // namespace talos::install
