#include "machined/upgrade/live/live-plan.h"

#include <kj/debug.h>
#include <string.h>

#include <algorithm>

#include "common/base/lines.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kOrder[] = {"apid"_kj,  "trustd"_kj, "networkd"_kj, "etcd-supervisor"_kj,
                                    "kubed"_kj, "vipd"_kj,   "logd"_kj};

kj::Vector<kj::ArrayPtr<const char>> fieldsOf(kj::ArrayPtr<const char> line, char separator) {
  kj::Vector<kj::ArrayPtr<const char>> fields;
  for (size_t begin = 0; begin <= line.size();) {
    size_t end = begin;
    while (end < line.size() && line[end] != separator) ++end;
    if (end > begin) fields.add(line.slice(begin, end));
    begin = end + 1;
  }
  return fields;
}

bool equal(kj::ArrayPtr<const char> text, kj::StringPtr word) {
  return text == word.asArray();
}

// The kernel writes blanks and backslashes as octal numbers.
kj::String unescaped(kj::ArrayPtr<const char> text) {
  kj::Vector<char> plain;
  for (size_t i = 0; i < text.size(); ++i) {
    bool octal = text[i] == '\\' && i + 3 < text.size();
    for (size_t k = 1; k <= 3 && octal; ++k) octal = text[i + k] >= '0' && text[i + k] <= '7';
    if (!octal) {
      plain.add(text[i]);
      continue;
    }
    plain.add(static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                (text[i + 3] - '0')));
    i += 3;
  }
  return kj::heapString(plain.asPtr());
}

kj::Vector<kj::String> lowerLayersOf(kj::ArrayPtr<const char> options) {
  constexpr kj::StringPtr kLower = "lowerdir="_kj;
  kj::Vector<kj::String> layers;
  for (auto option : fieldsOf(options, ',')) {
    if (option.size() < kLower.size() || !equal(option.slice(0, kLower.size()), kLower)) continue;
    for (auto layer : fieldsOf(option.slice(kLower.size(), option.size()), ':')) {
      layers.add(unescaped(layer));
    }
  }
  return layers;
}

// Returns the name in map_files of a range in maps, which has leading zeros.
kj::String rangeName(kj::ArrayPtr<const char> range) {
  return kj::strArray(
      KJ_MAP(end, fieldsOf(range, '-')) {
        while (end.size() > 1 && end[0] == '0') end = end.slice(1, end.size());
        return kj::heapString(end);
      },
      "-");
}

// "/system" has "/system/run", but not "/systems".
bool isBelowOrSame(kj::StringPtr path, kj::StringPtr folder) {
  return path.startsWith(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

}  // namespace

kj::Vector<kj::StringPtr> TopMount::layersOfImage(kj::ArrayPtr<const TopMount> all) const {
  kj::Vector<kj::StringPtr> layers;
  for (auto& layer : lowerLayers) {
    bool isOfImage = true;
    for (auto& other : all) {
      if (other.target != target && isBelowOrSame(layer, other.target)) isOfImage = false;
    }
    if (isOfImage) layers.add(layer);
  }
  return layers;
}

kj::Vector<TopMount> topMounts(kj::StringPtr mountinfo, uint64_t root, kj::StringPtr except) {
  kj::Vector<TopMount> mounts;
  for (auto line : Lines(mountinfo)) {
    // id parent device root target options [tags…] - type source options-of-the-file-system
    auto fields = fieldsOf(line, ' ');
    size_t dash = 6;
    while (dash < fields.size() && !equal(fields[dash], "-")) ++dash;
    if (dash + 3 >= fields.size() || kj::heapString(fields[1]) != kj::str(root)) continue;
    TopMount mount{.target = unescaped(fields[4])};
    if (mount.target == "/" || mount.target == except) continue;
    if (equal(fields[dash + 1], "overlay")) mount.lowerLayers = lowerLayersOf(fields[dash + 3]);
    mounts.add(kj::mv(mount));
  }
  return mounts;
}

kj::Vector<kj::String> differingParts(kj::ArrayPtr<const FixedPart> running,
                                      kj::ArrayPtr<const FixedPart> other) {
  KJ_REQUIRE(running.size() == other.size());
  kj::Vector<kj::String> differing;
  for (auto i : kj::indices(running)) {
    KJ_REQUIRE(running[i].name == other[i].name);
    bool isSame = running[i].digest == other[i].digest && running[i].digest.size() > 0;
    if (!isSame) differing.add(kj::str(running[i].name));
  }
  return differing;
}

kj::Vector<kj::String> partsStatedOtherwise(kj::ArrayPtr<const FixedPart> running,
                                            kj::StringPtr stated) {
  kj::Vector<kj::String> differing;
  for (auto& part : running) {
    auto key = kj::str("//", part.name, "=");
    for (auto& letter : key.asArray()) {
      if (letter == ' ') letter = '-';
    }
    for (auto line : Lines(stated)) {
      bool isPart = line.size() > key.size() && equal(line.slice(0, key.size()), key);
      if (isPart && !equal(line.slice(key.size(), line.size()), part.digest)) {
        differing.add(kj::str(part.name));
      }
    }
  }
  return differing;
}

kj::String needsReboot(kj::ArrayPtr<const kj::String> differing) {
  return kj::str("it cannot take over without a reboot, because these differ: ",
                 kj::strArray(differing, ", "), "; upgrade without --live");
}

kj::Vector<MappedFile> mappedFiles(kj::StringPtr maps, kj::StringPtr device) {
  kj::Vector<MappedFile> files;
  for (auto line : Lines(maps)) {
    // range rights offset device inode path; the device is hexadecimal
    auto fields = fieldsOf(line, ' ');
    if (fields.size() < 6 || !equal(fields[3], device)) continue;
    auto text = kj::heapString(line);
    auto at = KJ_ASSERT_NONNULL(text.findFirst('/'));
    kj::StringPtr path = text.slice(at);
    bool isKnown = false;
    for (auto& file : files) isKnown = isKnown || file.path == path;
    if (!isKnown) files.add(MappedFile{rangeName(fields[0]), kj::str(path)});
  }
  return files;
}

void sortReplacements(kj::Vector<kj::String>& services) {
  auto rank = [](const kj::String& id) {
    size_t others = kj::size(kOrder) - 1;  // before the logs
    for (auto i : kj::indices(kOrder)) {
      if (id == kOrder[i]) return 2 * i;
    }
    return 2 * others - 1;
  };
  std::stable_sort(services.begin(), services.end(),
                   [&](auto& a, auto& b) { return rank(a) < rank(b); });
}

}  // namespace talos::machined
