#include "machined/disk/volumes/mount-table.h"

#include "common/base/lines.h"

namespace talos::machined {

// id parent major:minor root target options … - type source options
kj::Maybe<MountLine> mountOf(kj::ArrayPtr<const char> line) {
  kj::Vector<kj::ArrayPtr<const char>> fields;
  size_t begin = 0, dash = 0;
  for (size_t i = 0; i <= line.size(); ++i) {
    if (i < line.size() && line[i] != ' ') continue;
    fields.add(line.slice(begin, i));
    if (dash == 0 && fields.size() > 6 && fields.back() == "-"_kj.asArray())
      dash = fields.size() - 1;
    begin = i + 1;
  }
  if (dash == 0 || dash + 3 >= fields.size()) return nullptr;
  return MountLine{fields[2],        fields[3],        fields[4],       fields[5],
                   fields[dash + 1], fields[dash + 2], fields[dash + 3]};
}

kj::String unescaped(kj::ArrayPtr<const char> text) {
  kj::Vector<char> result;
  auto octal = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '7'; };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      result.add(static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                   (text[i + 3] - '0')));
      i += 3;
    } else {
      result.add(text[i]);
    }
  }
  return kj::heapString(result.asPtr());
}

kj::Vector<DeviceMount> deviceMounts(kj::StringPtr mountinfo) {
  kj::Vector<DeviceMount> mounts;
  for (auto line : Lines(mountinfo)) {
    auto parsed = mountOf(line);
    auto& mount = KJ_UNWRAP_OR(parsed, continue);
    auto source = unescaped(mount.source);
    bool skip = !source.startsWith("/dev/") || mount.root != "/"_kj.asArray();
    for (auto& other : mounts) skip = skip || other.source == source;
    if (skip) continue;
    DeviceMount found{.source = kj::mv(source),
                      .target = unescaped(mount.target),
                      .type = unescaped(mount.type),
                      .options = {}};
    size_t begin = 0;
    for (size_t i = 0; i <= mount.options.size(); ++i) {
      if (i < mount.options.size() && mount.options[i] != ',') continue;
      found.options.add(unescaped(mount.options.slice(begin, i)));
      begin = i + 1;
    }
    mounts.add(kj::mv(found));
  }
  return mounts;
}

}  // namespace talos::machined
