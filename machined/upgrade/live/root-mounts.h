// The mounts by which another system becomes the root of the running machine (pivot_root(2)). All
// functions block.
//
// The new root is made complete beside the present one, in kPlace, which nothing else uses: the
// file system of the new image, and on it a copy of each mount of the present root, with all mounts
// below. A copy is a peer of its original, so a mount or an unmount made meanwhile, as by a kubelet
// for a pod, happens in both. Then one call makes it the root of each process in this mount
// namespace, and of those started later. The running programs keep their files: what they have
// mapped or opened stays until they end. At last the old tree leaves its peers, so that taking it
// away unmounts nothing of the new one, and is detached.
//
// The end of this process, after each step:
//
//   step                        root       what is left in kPlace
//   mount kPlace                present    an empty tmpfs, which covers nothing
//   mount the new image         present    the image
//   copy each mount             present    the image and some copies; mounts are made in both
//   PIVOT_ROOT                  new        the old root, whole
//   old tree leaves its peers   new        the old root, private
//   detach the old tree         new        nothing
//
// clearPlace() takes away what is left, in each of these states, and the next brain calls it. A
// power cut leaves nothing: no mount outlives the kernel.
#pragma once

#include <kj/io.h>
#include <sys/types.h>

#include "common/disk/boot-slots.h"
#include "machined/upgrade/live/live-plan.h"

namespace talos::machined {

// An empty folder of each image, and the place for the new root below it while it is prepared.
constexpr kj::StringPtr kPlace = "/root"_kj, kNewRoot = install::kMountedImage;

// Mounts kPlace, where kNewRoot is then an empty folder.
void preparePlace();
// Detaches what is mounted in kPlace, if anything is.
void clearPlace();

// Returns the mounts of the present root.
kj::Vector<TopMount> mountsOfRoot();
// Returns the mounts for which the image in kNewRoot has no folder or file.
kj::Vector<kj::String> placesMissing(kj::ArrayPtr<const TopMount> mounts);
// Returns the parts of an image that stay those of the running system: process 1 and the layers of
// overlays. `running`: of the present root, without its mounts; otherwise of kNewRoot.
kj::Vector<FixedPart> fixedParts(bool running, kj::ArrayPtr<const TopMount> mounts);

// Makes kNewRoot the root. Throws if it could not be made complete: then the present root stays,
// and the caller calls clearPlace().
void enterNewRoot(kj::ArrayPtr<const TopMount> mounts);

// Returns the number of the device of a file system.
dev_t deviceOf(kj::StringPtr path);
// Returns true if the process has mapped a program or a library of another root image than the
// present one, and the present one has other bytes in this file, or lacks it.
bool runsOldFiles(int pid);

}  // namespace talos::machined
