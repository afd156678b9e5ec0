#include "machined/upgrade/live/entered-system.h"

#include "common/base/lines.h"

namespace talos::machined {
namespace {

kj::Maybe<EnteredSystem> enteredIn(kj::ArrayPtr<const char> line) {
  kj::Vector<kj::String> words;
  for (size_t begin = 0, end = 0; end <= line.size(); ++end) {
    if (end < line.size() && line[end] != ' ') continue;
    words.add(kj::heapString(line.slice(begin, end)));
    begin = end + 1;
  }
  if (words.size() != 4) return nullptr;
  KJ_IF_MAYBE (slot, install::slotNamed(words[0])) {
    KJ_IF_MAYBE (device, words[1].tryParseAs<uint64_t>()) {
      KJ_IF_MAYBE (ends, words[2].tryParseAs<int64_t>()) {
        KJ_IF_MAYBE (brains, words[3].tryParseAs<unsigned>()) {
          return EnteredSystem{*slot, *device, *ends, *brains};
        }
      }
    }
  }
  return nullptr;
}

}  // namespace

kj::String encodeEntered(kj::ArrayPtr<const EnteredSystem> systems) {
  return kj::strArray(
      KJ_MAP(each, systems) {
        return kj::str(install::nameOf(each.slot), " ", each.device, " ", each.trialEnds, " ",
                       each.brains, "\n");
      },
      "");
}

kj::Vector<EnteredSystem> decodeEntered(kj::StringPtr text) {
  kj::Vector<EnteredSystem> systems;
  for (auto line : Lines(text)) {
    KJ_IF_MAYBE (system, enteredIn(line)) systems.add(*system);
  }
  return systems;
}

kj::Maybe<EnteredSystem> enteredAt(kj::ArrayPtr<const EnteredSystem> systems, uint64_t device) {
  for (auto& each : systems) {
    if (each.device == device) return each;
  }
  return nullptr;
}

}  // namespace talos::machined
