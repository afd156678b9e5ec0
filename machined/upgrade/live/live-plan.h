// The decisions of an upgrade without a reboot: whether another system can take the place of the
// running one, and which services are restarted for it. Pure: root-mounts.h gets the facts.
//
// The kernel, process 1 and the layers below mounted overlays stay those of the running system
// until the next boot. So all of these must have the same bytes in the new system; otherwise the
// node would run a mixture that no boot of either system gives. A program of the running system
// keeps running if each file that it has mapped has the same bytes in the new system.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::machined {

// A mount directly on the root file system.
struct TopMount {
  kj::String target;                   // "/var", "/opt"
  kj::Vector<kj::String> lowerLayers;  // of an overlay; empty for other mounts

  // Returns the layers that are folders of the root image itself, as "/opt"; `all`: each top mount.
  kj::Vector<kj::StringPtr> layersOfImage(kj::ArrayPtr<const TopMount> all) const;
};
// Returns the mounts on the mount with the id `root`, oldest first, but not `except`. `mountinfo`:
// the text of /proc/self/mountinfo.
kj::Vector<TopMount> topMounts(kj::StringPtr mountinfo, uint64_t root, kj::StringPtr except);

// A part of a system that no upgrade without a reboot replaces.
struct FixedPart {
  kj::String name;    // for messages: "the kernel", "the files of /opt"
  kj::String digest;  // empty: the system lacks it
};
// Returns the names of the parts that differ, in the order of `running`; empty if the other system
// can take over. Both lists name the same parts.
kj::Vector<kj::String> differingParts(kj::ArrayPtr<const FixedPart> running,
                                      kj::ArrayPtr<const FixedPart> other);
// Returns the names of the parts of which an installer image states another digest, in the lines
// "//process-1=<digest>" of its file config-keys. An image of an earlier release states none.
kj::Vector<kj::String> partsStatedOtherwise(kj::ArrayPtr<const FixedPart> running,
                                            kj::StringPtr stated);
// Returns the reason of a refusal, with the remedy.
kj::String needsReboot(kj::ArrayPtr<const kj::String> differing);

// A file that a process has mapped.
struct MappedFile {
  kj::String range;  // its name in /proc/<pid>/map_files
  kj::String path;   // in its system
};
// Returns the files of the device "7:3" in the text of /proc/<pid>/maps, each once.
kj::Vector<MappedFile> mappedFiles(kj::StringPtr maps, kj::StringPtr device);

// Sorts the services that are to be replaced: the API first, so that a system without a working API
// is noticed at once; the sender of logs last, so that it has the lines of all others.
void sortReplacements(kj::Vector<kj::String>& services);

}  // namespace talos::machined
