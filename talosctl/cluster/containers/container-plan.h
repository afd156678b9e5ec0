// Plans the mounts, devices, masks and capabilities of a node in a container, as a list of steps
// that the launcher (container-launch.h) carries out in the new namespaces, in order. Pure.
//
// Paths are relative to the new root, which is the image, read-only; sources on the host are
// absolute. State of the host's kernel that the node may read but not change is mounted read-only;
// what it must not read is covered: a file by an empty one, a folder by an empty folder.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>
#include <sys/types.h>

namespace talos::container {

struct Step {
  enum class Kind {
    kMount,   // mount(source, path, type, flags, data)
    kFolder,  // mkdir(path, mode); an existing one is fine
    kDevice,  // mknod(path, mode, device)
    kLink,    // symlink(source, path)
    kFile,    // `source` is the new file's content
  };
  Kind kind;
  kj::String path, source, type, data;
  unsigned long flags = 0;
  mode_t mode = 0;
  dev_t device = 0;
  bool optional = false;  // the host's kernel may not have this: ENOENT is fine

  // "mount proc on /proc": for messages.
  kj::String describe() const;
};

// A v1 hierarchy of the host: its controllers, as mount options, and the folder for it.
struct CgroupMount {
  kj::String controllers;  // "cpu,cpuacct"; empty: cgroup v2
  kj::String folder;       // below /sys/fs/cgroup; empty: /sys/fs/cgroup itself
};

struct ContainerSettings {
  kj::StringPtr stateFolder, ephemeralFolder;  // of the host: STATE and /var
  kj::StringPtr slotsFolder;                   // of the host: its systems (node-slots.h)
  kj::StringPtr arguments;                     // in the place of the kernel's command line
  kj::StringPtr bootId;                        // random, of this boot
  kj::ArrayPtr<const CgroupMount> cgroups;
  uint64_t memory = 0;  // bytes that it may use; 0: all of the host's
};

kj::Vector<Step> planContainer(const ContainerSettings& settings);

// Character devices that a container may open. It may make device files of any kind.
struct AllowedDevice {
  uint32_t major, minor;  // kAnyMinor: all of them
};
constexpr uint32_t kAnyMinor = ~0u;
kj::ArrayPtr<const AllowedDevice> allowedDevices();

// Capabilities that no process of a container can get: they act on the host.
kj::ArrayPtr<const int> droppedCapabilities();

}  // namespace talos::container
