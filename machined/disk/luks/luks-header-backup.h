// The backup of a LUKS2 header in a file: the header as the node wrote it last, and so as it must
// be when the volume is opened.
//
// The file holds the header up to the data, with zeros (which occupy no space) where the header has
// neither metadata nor a key, then the SHA-256 of these bytes. It is replaced whole. While
// `<file>.changing` exists, the header may differ from the backup: markHeader() puts that file on
// the disk before a change of the header begins, and the last backupHeader() after the change
// removes it. So after a cut at any write, a header that the node itself changed is never taken for
// a header that someone else changed.
//
// restoreHeader() writes only if the backup certainly belongs to this volume: its digest is right;
// the device's header has no UUID, or the same one; a key opens the backup; and with this key the
// data begins with an XFS. The restored header becomes readable only when it is complete; after a
// cut the restoration is done again. The replaced header is kept as `<file>.replaced` meanwhile,
// then as `<file>.refused`, until the next restoration.
#pragma once

#include "machined/disk/luks/luks-device.h"

namespace talos::luks {

// Compares the device's header with the backup. NONE: no backup exists; DAMAGED: the backup is
// incomplete, so the header cannot be judged. Completes a restoration that a cut left without its
// last step.
using Comparison = rpc::LuksAnswer::Comparison;
Comparison compareHeader(Device& device, kj::StringPtr file);

void markHeader(kj::StringPtr file);
// `last`: the change has ended, and so has a restoration that was cut.
void backupHeader(Device& device, kj::StringPtr file, bool last);
// FailedPrecondition as described above, and for an empty device: a reset has emptied it. No reset
// empties the volume of a document and keeps its backup, so an empty one gets its header back, by
// the name of the file.
void restoreHeader(Device& device, kj::StringPtr file, kj::ArrayPtr<const Key> keys);
// Removes the backup of a volume that is gone. A missing backup is fine.
void forgetHeader(kj::StringPtr file);

}  // namespace talos::luks
