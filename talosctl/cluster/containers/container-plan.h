// Plans the mounts, devices, masks and capabilities of a node in a container, as an ordered list of
// steps that the launcher (container-launch.h) executes in the new namespaces. Pure.
//
// Paths are relative to the new root, the read-only image; sources on the host are absolute. State
// of the host's kernel that the node may read but not change is mounted read-only. State that it
// must not read is covered: a file by an empty file, a folder by an empty folder.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>
#include <sys/types.h>

namespace talos::container {

struct Step {
  enum class Kind {
    kMount,   // mount(source, path, type, flags, data)
    kFolder,  // mkdir(path, mode); the folder may exist
    kDevice,  // mknod(path, mode, device)
    kLink,    // symlink(source, path)
    kFile,    // `source` is the new file's content
  };
  Kind kind;
  kj::String path, source, type, data;
  unsigned long flags = 0;
  mode_t mode = 0;
  dev_t device = 0;
  bool optional = false;  // the host's kernel may lack the source: ENOENT is accepted

  // Returns a text for messages: "mount proc on /proc".
  kj::String describe() const;
};

// A v1 hierarchy of the host: its controllers, as mount options, and the folder of its mount.
struct CgroupMount {
  kj::String controllers;  // "cpu,cpuacct"; empty: cgroup v2
  kj::String folder;       // below /sys/fs/cgroup; empty: /sys/fs/cgroup itself
};

struct ContainerSettings {
  kj::StringPtr stateFolder, ephemeralFolder;  // folders of the host for STATE and /var
  kj::StringPtr slotsFolder;                   // folder of the host for its systems (node-slots.h)
  kj::StringPtr arguments;                     // replaces the kernel's command line
  kj::StringPtr bootId;                        // random id of this boot
  kj::ArrayPtr<const CgroupMount> cgroups;
  // Folder of the host with a cache of images, which the node gets read-only; may be empty.
  kj::StringPtr imageCache = nullptr;
  uint64_t memory = 0;  // limit in bytes; 0: the memory of the host
};

kj::Vector<Step> planContainer(const ContainerSettings& settings);

// Character devices that a container may open. It may create device files of any kind.
struct AllowedDevice {
  uint32_t major, minor;  // kAnyMinor: all minors
};
constexpr uint32_t kAnyMinor = ~0u;
kj::ArrayPtr<const AllowedDevice> allowedDevices();

// Returns the capabilities that no process of a container can get: they affect the host.
kj::ArrayPtr<const int> droppedCapabilities();

}  // namespace talos::container
