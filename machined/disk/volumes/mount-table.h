// The kernel's table of mounts, /proc/self/mountinfo. Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::machined {

// The fields of a line; texts may be escaped.
struct MountLine {
  kj::ArrayPtr<const char> device;   // 254:6
  kj::ArrayPtr<const char> root;     // the shown part of the file system
  kj::ArrayPtr<const char> target;   // where
  kj::ArrayPtr<const char> options;  // of the mount
  kj::ArrayPtr<const char> type, source;
  kj::ArrayPtr<const char> superOptions;  // of the file system
};
kj::Maybe<MountLine> mountOf(kj::ArrayPtr<const char> line);

// Replaces octal escapes of blanks and the like.
kj::String unescaped(kj::ArrayPtr<const char> text);

// A file system on a block device, at its first mount.
struct DeviceMount {
  kj::String source, target, type;
  kj::Vector<kj::String> options;  // of the mount
};
// Returns them in the order of the table, without mounts that show a part of a file system
// elsewhere.
kj::Vector<DeviceMount> deviceMounts(kj::StringPtr mountinfo);

}  // namespace talos::machined
