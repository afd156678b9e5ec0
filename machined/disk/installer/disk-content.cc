#include "machined/disk/installer/disk-content.h"

#include "machined/disk/volumes/volume-search.h"

namespace talos::install {

kj::Maybe<kj::String> worthKeeping(const Found& found) {
  if (found.installed == Installed::kUnfinished) return nullptr;
  kj::Vector<kj::String> things;
  if (found.installed == Installed::kYes) things.add(kj::str("an installed node"));
  for (auto& thing : machined::thingsOn(found)) things.add(kj::mv(thing));
  if (things.empty() && found.unknownData) things.add(kj::str("data of an unknown kind"));
  if (things.empty()) return nullptr;
  return kj::str("it holds ", kj::strArray(things, "; "));
}

}  // namespace talos::install
